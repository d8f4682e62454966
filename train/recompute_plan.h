// Which saved tensors of a training to drop and make again, or to move to the host, so that it fits
// a budget at the least predicted time. A step is recorded on the meta device as a graph of values
// and ops, which memory/plan/recompute.h plans on; what it says is then rehearsed, for the bytes of
// the planner in force count, and not those of the graph.
#pragma once

#include <memory>

#include "brim/memory/plan/plan.h"
#include "brim/memory/plan/recompute.h"
#include "brim/train/ladder.h"
#include "brim/train/recompute_means.h"
#include "brim/train/recorded_step.h"

namespace brim {

struct RecomputeChoice {
  bool fits = false;           ///< where not, this is what needs least
  RecomputeOptions recompute;  ///< what was asked for, where that fits
  StepMemory memory;           ///< of the training with it, rehearsed
  /// What it was rehearsed under, for a run on the arena (`memory::arena_planner`); null for
  /// others.
  std::shared_ptr<const memory::Plan> arena;
  memory::RecomputePlan plan;  ///< of the graph; its bound is for the limit
  int64_t dropped = 0;         ///< saved values that are made again
  int64_t offloaded = 0;       ///< values that go to the host
  double seconds = 0;          ///< to find it
};

/// For a training that may hold `limit` bytes in all: as it says, or, where that is too much, what
/// is planned from a step that keeps everything. The same question has the same answer. The least
/// is that of the plans which were found, to 4 KiB, and the same for every limit that is refused:
/// asked for as many bytes it fits, for 4 KiB less it does not. (But for `search_least`.)
RecomputeChoice choose_recomputation(const TrainingSetup& setup, int64_t limit,
                                     const RecomputeMeans& means = {});

}  // namespace brim
