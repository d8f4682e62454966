// Which saved values of a training step to keep, to rebuild, or to hold in host memory, so that the
// step fits a budget at the least extra time. Every peak is that of a simulation of the whole step
// (recompute_simulation.h), never a sum. Where buffers lie is for pack.h, whose height may be above
// the peak: ask again with a smaller budget then.
//
// The chain of forward ops is cut where little crosses; segments between cuts are simulated in some
// ways each, and a dynamic program chooses among them. Beside it values are dropped greedily by the
// true peak. The cheaper of the two is improved by a local search. The dynamic program does not
// offload, since copies of one segment delay those of the next; the others do. All of it stops on
// counts of work: the same question always has the same answer, though parts of the search run on
// as many threads as parallel loops have (base/parallel.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "brim/memory/plan/recompute_graph.h"

namespace brim::memory {

struct RecomputeOptions {
  /// Scales how long is searched; 1 takes about a second for 1,000 ops on two cores, with a host up
  /// to three times that.
  double effort = 1;
  uint64_t seed = 0;
};

struct RecomputePlan {
  bool fits = false;         ///< within the budget; where not, this is the least peak found
  std::vector<Fate> fates;   ///< by value
  int64_t peak = 0;          ///< of live bytes, all of them
  double extra_seconds = 0;  ///< of replays, and of waits for copies
  double wait_seconds = 0;   ///< of these, of the waits
  double seconds = 0;        ///< of the step with them
  int64_t offloaded = 0;     ///< values
  int64_t host_peak = 0;     ///< bytes in host memory, as many as are copied each way
  /// No plan for the budget has fewer extra seconds: a knapsack over single moments. Infinite where
  /// that shows that none fits. With a host it is weaker: of copies it counts only what their
  /// streams cannot hide behind the whole of forward and backward.
  double bound_seconds = 0;
  int64_t least_peak = 0;   ///< the lowest that was found, at any number of seconds
  int64_t bound_peak = 0;   ///< no plan has a lower one
  int64_t simulations = 0;  ///< of the step or a part, so far by the planner
  int64_t transitions = 0;  ///< of the dynamic program, so far by the planner
};

/// Answers for many budgets; what does not depend on the budget is worked out once.
class RecomputePlanner {
 public:
  /// Throws what `check_graph` throws, and `ValueError` for an effort that is not above 0 or above
  /// 1000.
  explicit RecomputePlanner(const RecomputeGraph& graph, const RecomputeOptions& options = {});
  ~RecomputePlanner();

  /// `budget`: bytes that may live at a time, all of them. Plans do not depend on those before.
  RecomputePlan plan(int64_t budget);
  /// Everything kept.
  RecomputePlan keep_all();
  /// The lowest peak that was found, in the fewest seconds for it.
  RecomputePlan least();
  /// That peak too, without the search for fewer seconds, which takes longer than the one for it.
  RecomputePlan least_at_any_time();
  /// `RecomputePlan::bound_seconds` for a budget, without a search.
  double bound_seconds(int64_t budget) const;
  /// Bytes against extra time: plans with falling peaks and rising seconds, from `keep_all` to
  /// `least`, for about `points` budgets evenly between the two.
  std::vector<RecomputePlan> front(int points);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One plan; throws what the planner throws.
RecomputePlan plan_recompute(const RecomputeGraph& graph, int64_t budget,
                             const RecomputeOptions& options = {});

}  // namespace brim::memory
