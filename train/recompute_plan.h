// Which saved tensors of a training to drop and make again so that it fits a budget, at the least
// predicted time. A step is recorded on the meta device as a graph of values and ops, which
// memory/plan/recompute.h plans on; what it says is then rehearsed, for the bytes of the planner in
// force count, and not those of the graph.
#pragma once

#include "brim/autograd/planned_recomputation.h"
#include "brim/memory/plan/recompute.h"
#include "brim/train/ladder.h"

namespace brim {

/// One micro-step of a training.
struct RecordedStep {
  memory::RecomputeGraph graph;
  /// Of each recorded call, of each output: the value, views being that of their storage; -1 for
  /// none.
  std::vector<std::vector<int32_t>> values;
};

/// The second micro-step of an update, where there is one, with everything kept. Peaks of the graph
/// are those of live bytes, nearly: gradients that share bytes are counted as if they did not.
/// Seconds are those of `training.op_times`.
RecordedStep record_step(const RehearsalOptions& training);

/// What the tape is told for a plan of that step.
autograd::Fates fates_of(const RecordedStep& step, const std::vector<memory::Fate>& saving);

struct RecomputeChoice {
  bool fits = false;           ///< where not, this is what needs least
  RecomputeOptions recompute;  ///< what was asked for, where that fits
  StepMemory memory;           ///< of the training with it, rehearsed
  memory::RecomputePlan plan;  ///< of the graph
  int64_t dropped = 0;         ///< values that are made again
  double seconds = 0;          ///< to find it
};

/// For a training that may hold `limit` bytes in all: as it says, or, where that is too much, what
/// is planned from a step that keeps everything. The same question has the same answer.
RecomputeChoice choose_recomputation(const TrainingSetup& setup, int64_t limit);

}  // namespace brim
