// What the rules of recompute_simulation.h cost, followed one after another with no thought of
// time: what simulations and plans are compared with. For small graphs.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "brim/base/random.h"
#include "brim/memory/plan/recompute.h"

namespace brim::testing {

using memory::Fate;
using memory::RecomputeGraph;

class SlowSimulation {
 public:
  SlowSimulation(const RecomputeGraph& graph, const std::vector<Fate>& saving)
      : graph_(graph), saving_(saving) {
    for (size_t op = 0; op < graph.ops.size(); ++op) run_forward(static_cast<int32_t>(op));
    for (const auto& step : graph.steps) run_backward(step);
  }

  int64_t peak() const {
    int64_t peak = 0, always = graph_.fixed_bytes;
    for (const auto& value : graph_.values) always += value.producer < 0 ? value.bytes : 0;
    for (size_t moment = 0; moment < beside_.size(); ++moment) {
      int64_t bytes = always + beside_[moment];
      for (const Instance& instance : instances_)
        if (instance.born <= moment && moment <= instance.last)
          bytes += graph_.values[static_cast<size_t>(instance.value)].bytes;
      peak = std::max(peak, bytes);
    }
    return peak;
  }
  double extra_seconds() const { return extra_seconds_; }
  int64_t replays() const { return replays_; }

 private:
  struct Instance {
    int32_t value;
    size_t born, last;
  };

  const RecomputeGraph::Value& value(int32_t v) const {
    return graph_.values[static_cast<size_t>(v)];
  }
  bool is_source(int32_t v) const { return value(v).producer < 0; }
  bool there(int32_t v) const { return is_source(v) || now_.contains(v); }
  size_t moment() const { return beside_.size() - 1; }

  std::vector<int32_t> outputs(int32_t op) const {
    std::vector<int32_t> made;
    for (size_t v = 0; v < graph_.values.size(); ++v)
      if (graph_.values[v].producer == op) made.push_back(static_cast<int32_t>(v));
    return made;
  }
  const std::vector<int32_t>& replay_reads(int32_t op) const {
    const auto& forward = graph_.ops[static_cast<size_t>(op)];
    return forward.replay_reads ? *forward.replay_reads : forward.reads;
  }

  void read(const std::vector<int32_t>& values) {
    for (int32_t v : values)
      if (!is_source(v)) instances_[now_.at(v)].last = moment();
  }
  void make(int32_t v) {
    now_[v] = instances_.size();
    instances_.push_back({v, moment(), moment()});
  }
  /// In forward all values can be read; the first backward step finds only what is kept.
  void run_forward(int32_t op) {
    beside_.push_back(graph_.ops[static_cast<size_t>(op)].scratch);
    read(graph_.ops[static_cast<size_t>(op)].reads);
    for (int32_t v : outputs(op)) make(v);
    if (op + 1 < static_cast<int32_t>(graph_.ops.size())) return;
    std::erase_if(now_, [&](const auto& entry) {
      return saving_[static_cast<size_t>(entry.first)] != Fate::keep;
    });
  }
  void need(const std::vector<int32_t>& values, std::set<int32_t>& ops) const {
    for (int32_t v : values)
      if (!there(v) && ops.insert(value(v).producer).second)
        need(replay_reads(value(v).producer), ops);
  }
  void run_backward(const RecomputeGraph::BackwardStep& step) {
    std::set<int32_t> ops;
    need(step.reads, ops);
    for (int32_t op : ops) replay(op, step.held_before);
    beside_.push_back(step.held);
    read(step.reads);
    std::erase_if(now_, [&](const auto& entry) {
      return saving_[static_cast<size_t>(entry.first)] == Fate::remake;
    });
  }
  void replay(int32_t op, int64_t held) {
    const auto& forward = graph_.ops[static_cast<size_t>(op)];
    beside_.push_back(held + forward.replay_scratch);
    read(replay_reads(op));
    extra_seconds_ += forward.replay_seconds;
    ++replays_;
    for (int32_t v : outputs(op)) {
      if (!value(v).may_drop) continue;
      if (there(v))
        beside_.back() += value(v).bytes;
      else
        make(v);
    }
  }

  const RecomputeGraph& graph_;
  const std::vector<Fate>& saving_;
  std::map<int32_t, size_t> now_;  // instances that can be read, by value
  std::vector<Instance> instances_;
  std::vector<int64_t> beside_;  // by moment: bytes that are no values
  double extra_seconds_ = 0;
  int64_t replays_ = 0;
};

inline std::vector<int32_t> droppable(const RecomputeGraph& graph) {
  std::vector<int32_t> values;
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].may_drop) values.push_back(static_cast<int32_t>(v));
  return values;
}

inline std::vector<Fate> random_saving(const RecomputeGraph& graph, RandomStream& random) {
  std::vector<Fate> saving(graph.values.size(), Fate::keep);
  for (int32_t v : droppable(graph))
    saving[static_cast<size_t>(v)] = static_cast<Fate>(random.below(3));
  return saving;
}

inline void check_against_rules(const RecomputeGraph& graph, const memory::RecomputePlan& plan) {
  SlowSimulation slow(graph, plan.saving);
  CHECK(plan.peak == slow.peak());
  CHECK(plan.extra_seconds == slow.extra_seconds());
  CHECK(plan.seconds == memory::step_seconds(graph) + slow.extra_seconds());
}

}  // namespace brim::testing
