#include "brim/train/recorded_calls.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace brim {
namespace {

using memory::RecomputeGraph;
using Call = RecordedCalls::Call;

size_t at(int64_t i) { return static_cast<size_t>(i); }

void add_once(std::vector<int32_t>& list, int32_t item) {
  if (std::ranges::count(list, item) == 0) list.push_back(item);
}

bool passes_on(const Call& call, int32_t value) {
  return value >= 0 && std::ranges::count(call.inputs, value) > 0 &&
         std::ranges::count(call.outputs, value) > 0;
}

std::vector<int64_t> sums(std::vector<int64_t> changes) {
  std::partial_sum(changes.begin(), changes.end(), changes.begin());
  return changes;
}

// Calls become ops: those that write into the same bytes are one, at the place of the last.
class Grouping {
 public:
  explicit Grouping(const RecordedCalls& recorded)
      : recorded_(recorded), leaders_(recorded.calls.size()), ops_(recorded.calls.size()) {
    std::vector<int32_t> last(leaders_.size());  // call of a group, by its leader
    for (size_t c = 0; c < leaders_.size(); ++c) {
      const int32_t value = continued(static_cast<int32_t>(c));
      leaders_[c] = value < 0 ? static_cast<int32_t>(c)
                              : leaders_[at(recorded.values[at(value)].makers.front())];
      last[at(leaders_[c])] = static_cast<int32_t>(c);
    }
    for (size_t c = 0; c < leaders_.size(); ++c)
      if (last[at(leaders_[c])] == static_cast<int32_t>(c))
        ends_.push_back(static_cast<int32_t>(c));
    for (size_t k = 0; k < ends_.size(); ++k)
      last[at(leaders_[at(ends_[k])])] = static_cast<int32_t>(k);
    for (size_t c = 0; c < leaders_.size(); ++c) ops_[c] = last[at(leaders_[c])];
  }

  int32_t op_of(int32_t call) const { return ops_[at(call)]; }
  int32_t maker(int32_t value) const { return op_of(recorded_.values[at(value)].makers.front()); }
  /// The op at whose moment a call's bytes are seen.
  size_t moment_of(int32_t call) const {
    return at(std::ranges::lower_bound(ends_, call) - ends_.begin());
  }
  size_t ops() const { return ends_.size(); }
  int64_t calls_of(int32_t op) const { return std::ranges::count(ops_, op); }

 private:
  // The value that a call writes over, or only passes on to one that does; -1 for none.
  int32_t continued(int32_t c) const {
    const Call& call = recorded_.calls[at(c)];
    if (call.overwritten >= 0) return call.overwritten;
    for (int32_t value : call.outputs)
      if (passes_on(call, value) && recorded_.values[at(value)].makers.back() > c) return value;
    return -1;
  }

  const RecordedCalls& recorded_;
  std::vector<int32_t> leaders_;  // the first call of its group, by call
  std::vector<int32_t> ops_;      // by call
  std::vector<int32_t> ends_;     // the last call, by op
};

class Building {
 public:
  explicit Building(const RecordedCalls& recorded) : recorded_(recorded), groups_(recorded) {}

  RecomputeGraph run() && {
    add_ops();
    add_values();
    add_steps();
    settle_forward();
    settle_backward();
    return std::move(graph_);
  }

 private:
  void add_ops() {
    graph_.ops.resize(groups_.ops());
    for (size_t c = 0; c < recorded_.calls.size(); ++c) {
      const Call& call = recorded_.calls[c];
      const int32_t k = groups_.op_of(static_cast<int32_t>(c));
      auto& op = graph_.ops[at(k)];
      op.seconds += call.seconds;
      op.replay_seconds += call.replay_seconds;
      op.row_seconds += call.row_seconds;
      // Who reads what is written over later cannot be run again, and is no reader in the graph.
      for (int32_t value : call.inputs)
        if (value >= 0 && groups_.maker(value) < k) add_once(op.reads, value);
    }
  }

  void add_values() {
    for (size_t i = 0; i < recorded_.values.size(); ++i) {
      const auto& value = recorded_.values[i];
      graph_.values.push_back({.bytes = value.bytes,
                               .producer = groups_.maker(static_cast<int32_t>(i)),
                               .may_drop = value.may_drop,
                               .cheap = value.is_one_pass,
                               .may_offload = value.may_offload,
                               .row_group = value.row_group});
    }
    for (size_t c = 0; c < recorded_.calls.size(); ++c) {
      const bool stays = reads_what_is_gone(static_cast<int32_t>(c));
      for (int32_t value : recorded_.calls[c].outputs) {
        if (value < 0) continue;
        if (stays) graph_.values[at(value)].may_drop = false;
        if (!recorded_.calls[c].has_rows && is_of_group(c, value))
          graph_.values[at(value)].row_group = -1;
      }
    }
  }

  // Is it run when the value is made again?
  bool is_of_group(size_t call, int32_t value) const {
    return groups_.op_of(static_cast<int32_t>(call)) == groups_.maker(value);
  }

  // An input that another call wrote over afterwards.
  bool reads_what_is_gone(int32_t c) const {
    const Call& call = recorded_.calls[at(c)];
    return std::ranges::any_of(call.inputs, [&](int32_t value) {
      return value >= 0 && !passes_on(call, value) && recorded_.values[at(value)].makers.back() > c;
    });
  }

  void add_steps() {
    for (const auto& step : recorded_.steps) {
      const Call& call = recorded_.calls[at(step.call)];
      graph_.steps.push_back({.seconds = step.seconds, .reads = call.saved});
      auto& by_rows = graph_.steps.back().by_rows;
      for (int32_t value : call.by_rows)
        if (graph_.values[at(value)].row_group >= 0) by_rows.push_back(value);
      // Of several calls that run again together, the inputs of the first are not those of the
      // last.
      for (int32_t value : call.derived)
        if (groups_.calls_of(groups_.maker(value)) == 1)
          graph_.steps.back().or_sources.push_back(value);
    }
  }

  // Bytes of values at each of `moments` and then at each step, when everything is kept.
  template <class Born, class Read>
  std::vector<int64_t> value_bytes(size_t moments, const Born& born, const Read& moment_of) const {
    std::vector<size_t> last;
    for (size_t i = 0; i < recorded_.values.size(); ++i) last.push_back(born(i));
    auto read = [&](int32_t value, size_t moment) {
      if (value >= 0) last[at(value)] = std::max(last[at(value)], moment);
    };
    for (size_t c = 0; c < recorded_.calls.size(); ++c)
      for (int32_t value : recorded_.calls[c].inputs) read(value, moment_of(c));
    for (size_t j = 0; j < recorded_.steps.size(); ++j)
      for (int32_t value : graph_.steps[j].reads) read(value, moments + j);
    std::vector<int64_t> changes(moments + recorded_.steps.size() + 1);
    for (size_t i = 0; i < last.size(); ++i) {
      changes[born(i)] += recorded_.values[i].bytes;
      changes[last[i] + 1] -= recorded_.values[i].bytes;
    }
    return sums(std::move(changes));
  }

  std::vector<int64_t> bytes_by_call() const {
    return value_bytes(
        recorded_.calls.size(), [&](size_t i) { return at(recorded_.values[i].makers.front()); },
        [](size_t call) { return call; });
  }

  std::vector<int64_t> bytes_by_op() const {
    return value_bytes(
        groups_.ops(), [&](size_t i) { return at(graph_.values[i].producer); },
        [&](size_t call) { return groups_.moment_of(static_cast<int32_t>(call)); });
  }

  // What was live beside values is scratch, and the batch, which is there throughout.
  void settle_forward() {
    graph_.fixed_bytes = recorded_.fixed_bytes;
    if (recorded_.calls.empty()) return;
    const std::vector<int64_t> by_call = bytes_by_call(), by_op = bytes_by_op();
    std::vector<int64_t> beside;
    for (size_t c = 0; c < recorded_.calls.size(); ++c)
      beside.push_back(
          std::max<int64_t>(recorded_.calls[c].peak - graph_.fixed_bytes - by_call[c], 0));
    const int64_t batch = std::ranges::min(beside);
    graph_.fixed_bytes += batch;
    for (size_t c = 0; c < recorded_.calls.size(); ++c) {
      const auto call = static_cast<int32_t>(c);
      int64_t& own = graph_.ops[at(groups_.op_of(call))].replay_scratch;
      own = std::max(own, beside[c] - batch);
      // Bytes of a value whose op is yet to come in the graph are scratch of ops until then.
      const size_t moment = groups_.moment_of(call);
      int64_t& scratch = graph_.ops[moment].scratch;
      scratch = std::max(scratch, beside[c] - batch + by_call[c] - by_op[moment]);
    }
  }

  void settle_backward() {
    const std::vector<int64_t> bytes = bytes_by_op(), pending = pending_gradients();
    int64_t of_leaves = 0;
    for (size_t j = 0; j < recorded_.steps.size(); ++j) {
      auto& step = graph_.steps[j];
      step.held = std::max<int64_t>(
          recorded_.steps[j].peak - graph_.fixed_bytes - bytes[groups_.ops() + j], 0);
      step.held_before = std::min(step.held, pending[j] + of_leaves);
      of_leaves += recorded_.calls[at(recorded_.steps[j].call)].new_gradients;
    }
  }

  // Of values, just before each step: from the first that reads a value to that of its first maker.
  std::vector<int64_t> pending_gradients() const {
    std::vector<std::optional<size_t>> step_of(recorded_.calls.size()), from(graph_.values.size());
    for (size_t j = 0; j < recorded_.steps.size(); ++j) step_of[at(recorded_.steps[j].call)] = j;
    for (size_t c = 0; c < recorded_.calls.size(); ++c)
      if (step_of[c])
        for (int32_t value : recorded_.calls[c].inputs)
          if (value >= 0 && !passes_on(recorded_.calls[c], value))
            from[at(value)] = std::min(from[at(value)].value_or(*step_of[c]), *step_of[c]);
    std::vector<int64_t> changes(recorded_.steps.size() + 1);
    for (size_t i = 0; i < from.size(); ++i) {
      const auto to = step_of[at(recorded_.values[i].makers.front())];
      if (!from[i] || !to || *from[i] >= *to) continue;
      changes[*from[i] + 1] += graph_.values[i].bytes;
      if (*to + 1 < changes.size()) changes[*to + 1] -= graph_.values[i].bytes;
    }
    return sums(std::move(changes));
  }

  const RecordedCalls& recorded_;
  Grouping groups_;
  RecomputeGraph graph_;
};

}  // namespace

RecomputeGraph graph_of(const RecordedCalls& recorded) { return Building(recorded).run(); }

}  // namespace brim
