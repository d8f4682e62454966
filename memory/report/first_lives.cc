#include "brim/memory/report/first_lives.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace brim::memory {
namespace {

class Matching {
 public:
  explicit Matching(const Trace& trace) : trace_(trace), first_(trace.buffers.size(), -1) {}

  std::vector<int64_t> run() {
    for (const TraceOp& op : trace_.ops)
      if (op.origin.phase == Phase::forward)
        for (int64_t written : op.outputs) last_writer_[written] = &op;
    for (const TraceOp& op : trace_.ops) {
      if (op.origin.phase == Phase::forward) calls_[key_of(op)].push_back({&op, false});
      if (op.origin.phase == Phase::recompute) match(op);
    }
    return std::move(first_);
  }

 private:
  using Key = std::tuple<int64_t, std::string, std::string, std::string, int64_t>;
  struct Call {
    const TraceOp* op;
    bool is_taken;  // by a later life
  };

  static size_t index(int64_t i) { return static_cast<size_t>(i); }
  const TraceBuffer& buffer(int64_t i) const { return trace_.buffers[index(i)]; }

  bool is_rebuilt(int64_t i) const {
    return buffer(i).origin.phase == Phase::recompute &&
           buffer(i).category == Category::activations;
  }

  /// The section, the innermost where they nest, and the place of the call.
  Key key_of(const TraceOp& op) const {
    int64_t begin = -1;
    for (const TraceSection& section : trace_.sections)
      if (section.begin <= op.begin && op.begin < section.end)
        begin = std::max(begin, section.begin);
    const Origin& origin = op.origin;
    return {begin, origin.op, origin.module, origin.file, origin.line};
  }

  /// What a call wrote that is like `made`, and that was gone when it was made; -1 for nothing.
  /// What a later call wrote over held another value when it went.
  int64_t dropped_by(const TraceOp& call, int64_t made) const {
    for (int64_t output : call.outputs)
      if (last_writer_.at(output) == &call && buffer(output).shape == buffer(made).shape &&
          buffer(output).bytes == buffer(made).bytes && buffer(output).death <= made)
        return output;
    return -1;
  }

  /// The call that made it in forward: the last that no later life has yet, or that any has.
  const TraceOp* call_of(const TraceOp& op, int64_t made) {
    std::vector<Call>& calls = calls_[key_of(op)];
    const TraceOp* taken = nullptr;
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      if (dropped_by(*call->op, made) < 0) continue;
      if (!std::exchange(call->is_taken, true)) return call->op;
      if (taken == nullptr) taken = call->op;
    }
    return taken;
  }

  void match(const TraceOp& op) {
    const TraceOp* call = nullptr;
    for (int64_t made : op.outputs) {
      if (!is_rebuilt(made)) continue;
      if (call == nullptr) call = call_of(op, made);
      if (call != nullptr) first_[index(made)] = dropped_by(*call, made);
    }
  }

  const Trace& trace_;
  std::vector<int64_t> first_;
  std::map<int64_t, const TraceOp*> last_writer_;  // in forward, of a buffer
  std::map<Key, std::vector<Call>> calls_;
};

}  // namespace

std::vector<int64_t> first_lives(const Trace& trace) { return Matching(trace).run(); }

}  // namespace brim::memory
