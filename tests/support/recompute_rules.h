// The rules of memory/plan/recompute_simulation.h once more, one after another and with no thought
// of time, for tests of the fast simulation; and the costs of all plans of a small graph, for tests
// of planners. Programs ask `simulate_recompute`.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "brim/memory/plan/recompute_graph.h"

namespace brim::testing {

class SlowSimulation {
 public:
  /// Keeps references.
  SlowSimulation(const memory::RecomputeGraph& graph, const std::vector<memory::Fate>& saving);

  int64_t peak() const;
  double extra_seconds() const { return replay_seconds_ + wait_seconds_; }
  double wait_seconds() const { return wait_seconds_; }
  int64_t replays() const { return replays_; }
  int64_t host_bytes() const;

 private:
  struct Instance {
    int32_t value;
    size_t born, last;
  };

  const memory::RecomputeGraph::Value& value(int32_t v) const {
    return graph_.values[static_cast<size_t>(v)];
  }
  memory::Fate fate(int32_t v) const { return saving_[static_cast<size_t>(v)]; }
  bool is_source(int32_t v) const { return value(v).producer < 0; }
  bool there(int32_t v) const { return is_source(v) || now_.contains(v); }
  size_t moment() const { return beside_.size() - 1; }
  double copy_seconds(int32_t v) const {
    return static_cast<double>(value(v).bytes) / graph_.host_bytes_per_second;
  }

  std::vector<int32_t> outputs(int32_t op) const;
  const std::vector<int32_t>& replay_reads(int32_t op) const;
  std::vector<int32_t> dead_after(int32_t op) const;
  void read(const std::vector<int32_t>& values);
  void make(int32_t v, size_t moment);
  void wait_until(double when);
  void run_forward(int32_t op);
  void copy_out(int32_t v);
  void finish_oldest();
  void fetch(int32_t v, size_t moment);
  void wait_for(int32_t v);
  void bring(size_t step);
  bool is_read_by_steps(int32_t v, size_t first, size_t end) const;
  bool is_at_hand(int32_t v) const { return there(v) || fate(v) == memory::Fate::offload; }
  bool is_retained(int32_t v, size_t step) const;
  void need(const std::vector<int32_t>& values, std::set<int32_t>& ops) const;
  /// What a step reads that finds some of its reads missing, and does without them.
  struct Instead {
    std::vector<int32_t> reads;
    std::set<int32_t> row_ops;
    int64_t bytes = 0;  ///< of what it reads by rows
  };
  Instead instead(size_t step) const;
  /// False where something on the way has no rows, for a value that is retained.
  bool add_rows(int32_t v, int32_t group, bool is_retained, size_t step, Instead& found) const;
  void run_backward(size_t step);
  void replay(int32_t op, int64_t held);

  const memory::RecomputeGraph& graph_;
  const std::vector<memory::Fate>& saving_;
  std::map<int32_t, size_t> now_;  // instances that can be read, by value
  std::vector<Instance> instances_;
  std::vector<int64_t> beside_;  // by moment: bytes that are no values
  double clock_ = 0, out_free_ = 0, back_free_ = 0;
  std::deque<std::pair<int32_t, double>> leaving_;  // values, and when they have left
  std::deque<std::pair<int32_t, double>> coming_;   // and when they are back
  double replay_seconds_ = 0, wait_seconds_ = 0;
  int64_t replays_ = 0;
};

/// Peak and extra seconds.
using PlanCost = std::pair<int64_t, double>;

/// Of all plans, that which keeps everything first.
std::vector<PlanCost> all_plans(const memory::RecomputeGraph& graph);

/// The least of those within `budget`; infinite where none is.
double best_seconds(const std::vector<PlanCost>& plans, int64_t budget);

}  // namespace brim::testing
