#include "brim/memory/report/first_lives.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "brim/memory/fetch_name.h"

namespace brim::memory {
namespace {

/// Of the candidates that fit: the last that no later life has yet, or that any has; null for none.
template <class Candidate, class Fits>
const Candidate* last_of(std::vector<Candidate>& candidates, const Fits& fits) {
  const Candidate* taken = nullptr;
  for (auto each = candidates.rbegin(); each != candidates.rend(); ++each) {
    if (!fits(*each)) continue;
    if (!std::exchange(each->is_taken, true)) return &*each;
    if (taken == nullptr) taken = &*each;
  }
  return taken;
}

class Matching {
 public:
  explicit Matching(const Trace& trace) : trace_(trace), first_(trace.buffers.size(), -1) {}

  std::vector<int64_t> run() {
    for (const TraceOp& op : trace_.ops)
      if (op.origin.phase == Phase::forward)
        for (int64_t written : op.outputs) last_writer_[written] = &op;
    for (const TraceOp& op : trace_.ops) {
      if (op.origin.phase == Phase::forward)
        calls_[key_of(op.origin, op.begin)].push_back({&op, false});
      if (op.origin.phase == Phase::recompute) match(op);
    }
    match_fetched();
    return std::move(first_);
  }

 private:
  using Key = std::tuple<int64_t, std::string, std::string, std::string, int64_t>;
  struct Call {
    const TraceOp* op;
    bool is_taken;  // by a later life
  };
  struct Left {
    int64_t buffer;
    bool is_taken;
  };

  static size_t index(int64_t i) { return static_cast<size_t>(i); }
  const TraceBuffer& buffer(int64_t i) const { return trace_.buffers[index(i)]; }

  bool is_rebuilt(int64_t i) const {
    return buffer(i).origin.phase == Phase::recompute &&
           buffer(i).category == Category::activations;
  }

  /// The section, the innermost where they nest, and the place of the call.
  Key key_of(const Origin& origin, int64_t time) const {
    int64_t begin = -1;
    for (const TraceSection& section : trace_.sections)
      if (section.begin <= time && time < section.end) begin = std::max(begin, section.begin);
    return {begin, origin.op, origin.module, origin.file, origin.line};
  }

  /// Gone when `later` was made, and as large.
  bool may_precede(const TraceBuffer& before, const TraceBuffer& later) const {
    return before.shape == later.shape && before.bytes == later.bytes &&
           before.death <= later.birth;
  }

  /// What a call wrote that is like `made`, and that was gone when it was made; -1 for nothing.
  /// What a later call wrote over held another value when it went.
  int64_t dropped_by(const TraceOp& call, int64_t made) const {
    for (int64_t output : call.outputs)
      if (last_writer_.at(output) == &call && may_precede(buffer(output), buffer(made)))
        return output;
    return -1;
  }

  /// The call that made it in forward.
  const TraceOp* call_of(const TraceOp& op, int64_t made) {
    const Call* call = last_of(calls_[key_of(op.origin, op.begin)],
                               [&](const Call& each) { return dropped_by(*each.op, made) >= 0; });
    return call == nullptr ? nullptr : call->op;
  }

  void match(const TraceOp& op) {
    const TraceOp* call = nullptr;
    for (int64_t made : op.outputs) {
      if (!is_rebuilt(made)) continue;
      if (call == nullptr) call = call_of(op, made);
      if (call != nullptr) first_[index(made)] = dropped_by(*call, made);
    }
  }

  /// A buffer comes back whole, whatever was written into it: so its own origin is looked for.
  void match_fetched() {
    const std::set<int64_t> dropped(first_.begin(), first_.end());
    std::map<Key, std::vector<Left>> left;
    for (const TraceBuffer& each : trace_.buffers) {
      if (each.category != Category::activations) continue;
      if (each.origin.phase == Phase::forward && !dropped.contains(each.birth))
        left[key_of(each.origin, each.birth)].push_back({each.birth, false});
      const auto op = fetched_op(each.origin.op);
      if (!op) continue;
      Origin origin = each.origin;
      origin.op = *op;
      const Left* before = last_of(left[key_of(origin, each.birth)], [&](const Left& candidate) {
        return may_precede(buffer(candidate.buffer), each);
      });
      if (before != nullptr) first_[index(each.birth)] = before->buffer;
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
