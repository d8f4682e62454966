#include "brim/memory/plan/recompute_simulator.h"

#include <algorithm>
#include <utility>

#include "brim/base/stop.h"

namespace brim::memory::recompute {
namespace {

constexpr int32_t kAlways = std::numeric_limits<int32_t>::max();
constexpr int32_t kStepsAhead = 2;  // for which fetches begin

}  // namespace

Simulator::Simulator(const FlatGraph& graph)
    : graph_(graph),
      present_until_(graph.bytes.size()),
      born_(graph.bytes.size()),
      last_(graph.bytes.size()),
      collected_(graph.scratch.size(), 0),
      collected_rows_(graph.scratch.size(), 0),
      copies_(graph) {}

Cost Simulator::run(std::span<const Fate> saving, const Limits& limits) {
  return run({0, graph_.ops(), 0, graph_.steps()}, saving, limits);
}

Cost Simulator::run(const Range& range, std::span<const Fate> saving, const Limits& limits) {
  stop_if_asked();
  ++runs_;
  cost_ = {};
  now_ = -1;
  timeline_.moments.clear();
  timeline_.instances.clear();
  first_value_ = graph_.first_output[at(range.first_op)];
  copies_.begin_step();
  forward(range, saving);
  if (cost_.host <= graph_.host_bytes && backward(range, saving, limits))
    finish(range, saving, limits);
  work_ += now_ + 1;
  return cost_;
}

/// Whether it stays within the limits.
bool Simulator::backward(const Range& range, std::span<const Fate> saving, const Limits& limits) {
  for (int32_t step = range.first_step; step < range.end_step; ++step) {
    if (offloads_) fetch_for(step, saving);
    collect(step, saving);
    cost_.replays += static_cast<int64_t>(replays_.size());
    for (int32_t op : replays_) replay(op, step, saving);
    backward_step(step, saving);
    if (cost_.seconds + copies_.waited() > limits.seconds || cost_.replays > limits.replays)
      return false;
  }
  return true;
}

void Simulator::begin_moment(int64_t transient, Kind kind, int32_t number) {
  ++now_;
  if (at(now_) + 2 > changes_.size()) changes_.resize(2 * at(now_) + 2);
  changes_[at(now_)].transient = transient;
  changes_[at(now_) + 1].growth = 0;
  if (recording_) timeline_.moments.push_back({kind, number, 0});
}

/// What is dropped ends here; what is kept has begun.
void Simulator::forward(const Range& range, std::span<const Fate> saving) {
  if (changes_.empty()) changes_.resize(1);
  changes_[0].growth = 0;
  for (int32_t op = range.first_op; op < range.end_op; ++op)
    begin_moment(graph_.scratch[at(op)], Kind::forward, op);
  const int32_t end_value = graph_.first_output[at(range.end_op)], last_op = range.end_op - 1;
  for (int32_t v = first_value_; v < end_value; ++v) {
    const bool outlives = graph_.last_use[at(v)] > last_op;
    born_[at(v)] = graph_.producer[at(v)] - range.first_op;
    last_[at(v)] = (outlives ? last_op : graph_.last_read[at(v)]) - range.first_op;
    present_until_[at(v)] = kAlways;
    if (saving[at(v)] == Fate::keep) continue;
    present_until_[at(v)] = -1;
    if (saving[at(v)] == Fate::offload)
      cost_.host += graph_.bytes[at(v)];
    else
      end_instance(v);
  }
  offloads_ = cost_.host > 0;
  if (offloads_) copy_out(saving);
}

/// The copies of the whole forward pass; what leaves ends with them.
void Simulator::copy_out(std::span<const Fate> saving) {
  auto next = graph_.offload_order.begin();
  for (int32_t op = 0; op < graph_.ops(); ++op) {
    copies_.compute(graph_.op_seconds[at(op)]);
    for (; next != graph_.offload_order.end() && graph_.last_read[at(*next)] == op; ++next)
      if (saving[at(*next)] == Fate::offload) leave(copies_.send(*next), op);
  }
  for (int32_t v = copies_.finish_sending(); v >= 0; v = copies_.finish_sending())
    if (is_read_soon(v, 0))
      present_until_[at(v)] = kAlways;
    else
      leave(v, graph_.ops() - 1);
}

void Simulator::leave(int32_t v, int32_t last) {
  if (v < 0) return;
  last_[at(v)] = last;
  end_instance(v);
}

/// By the step or one of those for which it fetches.
bool Simulator::is_read_soon(int32_t v, int32_t step) const {
  const int32_t end = std::min(step + kStepsAhead + 1, graph_.steps());
  for (; step < end; ++step)
    if (std::ranges::count(graph_.step_reads[step], v) > 0) return true;
  return false;
}

void Simulator::need(int32_t v, int32_t step, std::span<const Fate> saving) {
  if (is_at_hand(v, step, saving)) return;
  const int32_t op = graph_.producer[at(v)];
  if (collected_[at(op)] == stamp_) return;
  collected_[at(op)] = stamp_;
  replays_.push_back(op);
}

void Simulator::need_sources(int32_t v, int32_t step, std::span<const Fate> saving) {
  for (int32_t source : graph_.replay_reads[graph_.producer[at(v)]]) {
    need(source, step, saving);
    sources_.push_back(source);
  }
}

/// Adds the ops whose rows are made for it, and what they read. What is missing on the way is made
/// by rows too, unless a step to come finds it retained. False where something has no rows, and the
/// value is retained itself.
bool Simulator::find_rows(int32_t v, int32_t step, std::span<const Fate> saving) {
  const size_t first = row_ops_.size();
  auto add = [&](int32_t op) {
    if (std::exchange(collected_rows_[at(op)], stamp_) != stamp_) row_ops_.push_back(op);
  };
  add(graph_.producer[at(v)]);
  for (size_t i = first; i < row_ops_.size(); ++i)
    for (int32_t source : graph_.replay_reads[row_ops_[i]]) {
      const bool is_retained =
          saving[at(source)] == Fate::retain && graph_.last_step[at(source)] >= step;
      const bool has_rows = graph_.row_group[at(source)] == graph_.row_group[at(v)];
      const bool stays = is_retained || is_at_hand(source, step, saving);
      if (!stays && !has_rows && saving[at(v)] == Fate::retain) return false;
      if (stays || !has_rows)
        sources_.push_back(source);
      else
        add(graph_.producer[at(source)]);
    }
  return true;
}

void Simulator::need_rows(int32_t v, int32_t step, std::span<const Fate> saving) {
  const size_t ops = row_ops_.size(), sources = sources_.size();
  if (find_rows(v, step, saving)) {
    for (size_t i = sources; i < sources_.size(); ++i) need(sources_[i], step, saving);
    if (graph_.last_step[at(v)] == step) row_bytes_ += graph_.bytes[at(v)];
    return;
  }
  for (size_t i = ops; i < row_ops_.size(); ++i) collected_rows_[at(row_ops_[i])] = 0;
  row_ops_.resize(ops);
  sources_.resize(sources);
  need(v, step, saving);
  reads_.push_back(v);
}

void Simulator::collect(int32_t step, std::span<const Fate> saving) {
  ++stamp_;
  replays_.clear();
  row_ops_.clear();
  sources_.clear();
  reads_.clear();
  row_bytes_ = 0;
  for (int32_t i = graph_.step_reads.begins[at(step)]; i < graph_.step_reads.begins[at(step) + 1];
       ++i) {
    const int32_t v = graph_.step_reads.items[at(i)];
    if (graph_.instead[at(i)] == Instead::nothing || is_at_hand(v, step, saving)) {
      need(v, step, saving);
      reads_.push_back(v);
    } else if (graph_.instead[at(i)] == Instead::rows) {
      need_rows(v, step, saving);
    } else {
      need_sources(v, step, saving);
    }
  }
  for (size_t i = 0; i < replays_.size(); ++i)
    for (int32_t v : graph_.replay_reads[replays_[i]]) need(v, step, saving);
  std::ranges::sort(replays_);
  std::ranges::sort(row_ops_);
  std::ranges::sort(sources_);
}

/// What the step reads is back before its replays; what the next ones read comes beside them.
void Simulator::fetch_for(int32_t step, std::span<const Fate> saving) {
  for (int32_t v : graph_.step_reads[step]) {
    if (is_in_host(v, saving)) fetch(v, now_ + 1);
    copies_.wait_for(v);
  }
  const int32_t end = std::min(step + kStepsAhead + 1, graph_.steps());
  for (int32_t next = step + 1; next < end; ++next)
    for (int32_t v : graph_.step_reads[next])
      if (is_in_host(v, saving) && copies_.may_fetch_ahead()) fetch(v, now_ + 1);
}

void Simulator::fetch(int32_t v, int32_t moment) {
  born_[at(v)] = last_[at(v)] = moment;
  present_until_[at(v)] = kAlways;
  copies_.fetch(v);
}

void Simulator::read(std::span<const int32_t> values, std::span<const Fate> saving) {
  for (int32_t v : values) {
    last_[at(v)] = now_;
    if (!offloads_ || saving[at(v)] != Fate::offload) continue;
    if (is_in_host(v, saving)) fetch(v, now_);
    copies_.wait_for(v);
  }
}

void Simulator::replay(int32_t op, int32_t step, std::span<const Fate> saving) {
  begin_moment(graph_.held_before[at(step)] + graph_.replay_scratch[at(op)], Kind::replay, op);
  cost_.seconds += graph_.replay_seconds[at(op)];
  read(graph_.replay_reads[op], saving);
  copies_.compute(graph_.replay_seconds[at(op)]);
  for (int32_t v = graph_.first_output[at(op)]; v < graph_.first_output[at(op) + 1]; ++v) {
    if (!graph_.may_drop[at(v)]) continue;
    if (present(v, step) || saving[at(v)] == Fate::offload) {
      changes_[at(now_)].transient += graph_.bytes[at(v)];
      continue;
    }
    if (born_[at(v)] >= 0) end_instance(v);
    born_[at(v)] = last_[at(v)] = now_;
    present_until_[at(v)] = saving[at(v)] == Fate::retain ? kAlways : step;
  }
}

void Simulator::backward_step(int32_t step, std::span<const Fate> saving) {
  begin_moment(graph_.held[at(step)] + row_bytes_, Kind::backward, step);
  read(reads_, saving);
  read(sources_, saving);
  for (int32_t op : row_ops_) {
    cost_.seconds += graph_.row_seconds[at(op)];
    copies_.compute(graph_.row_seconds[at(op)]);
  }
  copies_.compute(graph_.step_seconds[at(step)]);
}

void Simulator::end_instance(int32_t v) {
  changes_[at(born_[at(v)])].growth += graph_.bytes[at(v)];
  changes_[at(last_[at(v)]) + 1].growth -= graph_.bytes[at(v)];
  if (recording_) timeline_.instances.push_back({v, born_[at(v)], last_[at(v)]});
  born_[at(v)] = -1;
}

void Simulator::finish(const Range& range, std::span<const Fate> saving, const Limits& limits) {
  const int32_t end_value = graph_.first_output[at(range.end_op)], last_op = range.end_op - 1;
  for (int32_t v = first_value_; v < end_value; ++v) {
    if (born_[at(v)] < 0) continue;
    const bool later = last_[at(v)] > last_op - range.first_op || graph_.last_use[at(v)] > last_op;
    if (saving[at(v)] == Fate::keep && later) cost_.kept += graph_.bytes[at(v)];
    end_instance(v);
  }
  int64_t live = 0;
  for (int32_t moment = 0; moment <= now_; ++moment) {
    live += changes_[at(moment)].growth;
    const int64_t bytes = live + changes_[at(moment)].transient;
    if (recording_) timeline_.moments[at(moment)].bytes = bytes;
    if (bytes > limits.bytes) cost_.excess += static_cast<double>(bytes - limits.bytes);
    if (bytes <= cost_.peak) continue;
    cost_.peak = bytes;
    cost_.peak_moment = moment;
  }
  cost_.waits = copies_.waited();
  cost_.seconds += cost_.waits;
  cost_.finished = true;
}

}  // namespace brim::memory::recompute
