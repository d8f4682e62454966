// A training step as recomputation plans on it: recorded on the meta device, as values with bytes
// and ops with seconds, with a way back from the plan to the tape. Bytes of the graph are those of
// live buffers, nearly: rehearse what was planned before it is promised.
#pragma once

#include <cstdint>
#include <vector>

#include "brim/autograd/planned_recomputation.h"
#include "brim/memory/plan/recompute_graph.h"
#include "brim/train/predicted_time.h"
#include "brim/train/rehearsal.h"

namespace brim {

/// One micro-step of a training. Calls that write one after another into the same bytes
/// (autograd/in_place.h) are one op of the graph, which makes one value.
struct RecordedStep {
  memory::RecomputeGraph graph;
  /// Of each recorded call, of each output: the value, views being that of their storage; -1 for
  /// none.
  std::vector<std::vector<int32_t>> values;
  /// Of each value: the call that wrote it last.
  std::vector<int32_t> makers;
};

/// The second micro-step of an update, where there is one, with everything kept; with a host where
/// the training offloads (`TrainerOptions::offload`). Gradients that share bytes are counted as if
/// they did not. Seconds are those of `training.op_times`.
RecordedStep record_step(const RehearsalOptions& training);

/// What the tape is told for a plan of that step. A value that no backward function reads is not
/// offloaded, whatever the plan says.
autograd::Fates fates_of(const RecordedStep& step, const std::vector<memory::Fate>& saving);

}  // namespace brim
