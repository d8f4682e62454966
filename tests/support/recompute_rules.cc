#include "brim/tests/support/recompute_rules.h"

#include <algorithm>
#include <limits>

#include "brim/memory/plan/recompute_simulator.h"

namespace brim::testing {

using memory::Fate;
using memory::RecomputeGraph;

SlowSimulation::SlowSimulation(const RecomputeGraph& graph, const std::vector<Fate>& saving)
    : graph_(graph), saving_(saving) {
  for (size_t op = 0; op < graph.ops.size(); ++op) run_forward(static_cast<int32_t>(op));
  for (size_t step = 0; step < graph.steps.size(); ++step) run_backward(step);
}

int64_t SlowSimulation::peak() const {
  int64_t peak = 0, always = graph_.fixed_bytes;
  for (const auto& value : graph_.values) always += value.producer < 0 ? value.bytes : 0;
  for (size_t moment = 0; moment < beside_.size(); ++moment) {
    int64_t bytes = always + beside_[moment];
    for (const Instance& instance : instances_)
      if (instance.born <= moment && moment <= instance.last) bytes += value(instance.value).bytes;
    peak = std::max(peak, bytes);
  }
  return peak;
}

int64_t SlowSimulation::host_bytes() const {
  int64_t bytes = 0;
  for (size_t v = 0; v < graph_.values.size(); ++v)
    if (saving_[v] == Fate::offload) bytes += graph_.values[v].bytes;
  return bytes;
}

std::vector<int32_t> SlowSimulation::outputs(int32_t op) const {
  std::vector<int32_t> made;
  for (size_t v = 0; v < graph_.values.size(); ++v)
    if (graph_.values[v].producer == op) made.push_back(static_cast<int32_t>(v));
  return made;
}

const std::vector<int32_t>& SlowSimulation::replay_reads(int32_t op) const {
  const auto& forward = graph_.ops[static_cast<size_t>(op)];
  return forward.replay_reads ? *forward.replay_reads : forward.reads;
}

/// What no forward op behind `op` reads, and one before it does not end.
std::vector<int32_t> SlowSimulation::dead_after(int32_t op) const {
  std::vector<int32_t> dead;
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    int32_t last = graph_.values[v].producer;
    for (size_t reader = 0; reader < graph_.ops.size(); ++reader)
      if (std::ranges::count(graph_.ops[reader].reads, static_cast<int32_t>(v)) > 0)
        last = static_cast<int32_t>(reader);
    if (last == op) dead.push_back(static_cast<int32_t>(v));
  }
  std::ranges::stable_sort(dead, {}, [&](int32_t v) { return value(v).producer; });
  return dead;
}

void SlowSimulation::read(const std::vector<int32_t>& values) {
  for (int32_t v : values) {
    if (is_source(v)) continue;
    if (!there(v)) fetch(v, moment());
    wait_for(v);
    instances_[now_.at(v)].last = moment();
  }
}

void SlowSimulation::make(int32_t v, size_t moment) {
  now_[v] = instances_.size();
  instances_.push_back({v, moment, moment});
}

void SlowSimulation::wait_until(double when) {
  if (when <= clock_) return;
  wait_seconds_ += when - clock_;
  clock_ = when;
}

/// In forward all values can be read; the first backward step finds only what is kept.
void SlowSimulation::run_forward(int32_t op) {
  const auto& forward = graph_.ops[static_cast<size_t>(op)];
  beside_.push_back(forward.scratch);
  read(forward.reads);
  for (int32_t v : outputs(op)) make(v, moment());
  clock_ += forward.seconds;
  for (int32_t v : dead_after(op))
    if (fate(v) == Fate::offload) copy_out(v);
  if (op + 1 < static_cast<int32_t>(graph_.ops.size())) return;
  std::set<int32_t> stay;
  for (const auto& [v, end] : leaving_)
    if (is_read_by_steps(v, 0, 3)) stay.insert(v);
  while (!leaving_.empty()) finish_oldest();
  std::erase_if(now_, [&](const auto& entry) {
    return fate(entry.first) != Fate::keep && !stay.contains(entry.first);
  });
}

void SlowSimulation::copy_out(int32_t v) {
  if (leaving_.size() == 2) finish_oldest();
  out_free_ = std::max(out_free_, clock_) + copy_seconds(v);
  leaving_.emplace_back(v, out_free_);
}

void SlowSimulation::finish_oldest() {
  const auto [v, end] = leaving_.front();
  leaving_.pop_front();
  wait_until(end);
  instances_[now_.at(v)].last = moment();
}

void SlowSimulation::fetch(int32_t v, size_t moment) {
  if (coming_.size() == 2) wait_for(coming_.front().first);
  make(v, moment);
  back_free_ = std::max(back_free_, clock_) + copy_seconds(v);
  coming_.emplace_back(v, back_free_);
}

void SlowSimulation::wait_for(int32_t v) {
  auto found = std::ranges::find(coming_, v, [](const auto& entry) { return entry.first; });
  if (found == coming_.end()) return;
  const double end = found->second;
  coming_.erase(found);
  wait_until(end);
}

bool SlowSimulation::is_read_by_steps(int32_t v, size_t first, size_t end) const {
  for (size_t step = first; step < std::min(end, graph_.steps.size()); ++step)
    if (std::ranges::count(graph_.steps[step].reads, v) > 0) return true;
  return false;
}

/// What the step reads, and some of what the next two do.
void SlowSimulation::bring(size_t number) {
  const size_t next_moment = beside_.size();
  for (int32_t v : graph_.steps[number].reads) {
    if (!there(v) && fate(v) == Fate::offload) fetch(v, next_moment);
    wait_for(v);
  }
  for (size_t next = number + 1; next < std::min(number + 3, graph_.steps.size()); ++next)
    for (int32_t v : graph_.steps[next].reads)
      if (!there(v) && fate(v) == Fate::offload && coming_.size() < 2) fetch(v, next_moment);
}

void SlowSimulation::need(const std::vector<int32_t>& values, std::set<int32_t>& ops) const {
  for (int32_t v : values)
    if (!there(v) && fate(v) != Fate::offload && ops.insert(value(v).producer).second)
      need(replay_reads(value(v).producer), ops);
}

/// For this step or one to come.
bool SlowSimulation::is_retained(int32_t v, size_t step) const {
  return fate(v) == Fate::retain && is_read_by_steps(v, step, graph_.steps.size());
}

bool SlowSimulation::add_rows(int32_t v, int32_t group, bool is_retained, size_t step,
                              Instead& found) const {
  const int32_t op = value(v).producer;
  if (!found.row_ops.insert(op).second) return true;
  for (int32_t source : replay_reads(op))
    if (is_at_hand(source) || this->is_retained(source, step))
      found.reads.push_back(source);
    else if (value(source).row_group != group && is_retained)
      return false;
    else if (value(source).row_group != group)
      found.reads.push_back(source);
    else if (!add_rows(source, group, is_retained, step, found))
      return false;
  return true;
}

SlowSimulation::Instead SlowSimulation::instead(size_t number) const {
  const auto& step = graph_.steps[number];
  Instead found;
  for (int32_t v : std::set(step.reads.begin(), step.reads.end())) {
    if (is_at_hand(v)) {
      found.reads.push_back(v);
    } else if (std::ranges::count(step.or_sources, v) > 0) {
      const auto& sources = replay_reads(value(v).producer);
      found.reads.insert(found.reads.end(), sources.begin(), sources.end());
    } else if (Instead with = found;
               std::ranges::count(step.by_rows, v) > 0 &&
               add_rows(v, value(v).row_group, fate(v) == Fate::retain, number, with)) {
      found = std::move(with);
      if (!is_read_by_steps(v, number + 1, graph_.steps.size())) found.bytes += value(v).bytes;
    } else {
      found.reads.push_back(v);
    }
  }
  return found;
}

void SlowSimulation::run_backward(size_t number) {
  const auto& step = graph_.steps[number];
  bring(number);
  const Instead found = instead(number);
  std::set<int32_t> ops;
  need(found.reads, ops);
  for (int32_t op : ops) replay(op, step.held_before);
  beside_.push_back(step.held + found.bytes);
  std::vector<int32_t> reads = found.reads;
  std::ranges::sort(reads, {}, [&](int32_t v) { return std::pair(value(v).producer, v); });
  read(reads);
  for (int32_t op : found.row_ops) {
    clock_ += graph_.ops[static_cast<size_t>(op)].row_seconds;
    replay_seconds_ += graph_.ops[static_cast<size_t>(op)].row_seconds;
  }
  std::erase_if(now_, [&](const auto& entry) { return fate(entry.first) == Fate::remake; });
  clock_ += step.seconds;
}

void SlowSimulation::replay(int32_t op, int64_t held) {
  const auto& forward = graph_.ops[static_cast<size_t>(op)];
  beside_.push_back(held + forward.replay_scratch);
  read(replay_reads(op));
  clock_ += forward.replay_seconds;
  replay_seconds_ += forward.replay_seconds;
  ++replays_;
  for (int32_t v : outputs(op)) {
    if (!value(v).may_drop) continue;
    if (there(v) || fate(v) == Fate::offload)
      beside_.back() += value(v).bytes;
    else
      make(v, moment());
  }
}

std::vector<PlanCost> all_plans(const RecomputeGraph& graph) {
  using memory::recompute::kFates;
  const memory::recompute::FlatGraph flat(graph);
  memory::recompute::Simulator simulator(flat);
  std::vector<Fate> saving = flat.all_kept();
  std::vector<PlanCost> plans;
  for (int32_t v = 0; v < flat.values();) {
    if (v == 0)
      if (memory::recompute::Cost cost = simulator.run(saving); cost.finished)
        plans.emplace_back(flat.fixed + cost.peak, cost.seconds);
    // The next number, whose digits are the fates of the values.
    Fate& digit = saving[static_cast<size_t>(v)];
    size_t next = static_cast<size_t>(digit) + 1;
    while (next < kFates.size() && !flat.may_be(v, kFates[next])) ++next;
    const bool carry = next == kFates.size();
    digit = carry ? Fate::keep : kFates[next];
    v = carry ? v + 1 : 0;
  }
  return plans;
}

double best_seconds(const std::vector<PlanCost>& plans, int64_t budget) {
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [peak, seconds] : plans)
    if (peak <= budget) best = std::min(best, seconds);
  return best;
}

}  // namespace brim::testing
