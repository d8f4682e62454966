// Does the training run fit the budget? Asked before the first byte is taken.
#pragma once

#include "brim/examples/support/events.h"
#include "brim/examples/support/train_data.h"
#include "brim/examples/support/train_flags.h"

namespace brim::examples {

/// Runs a training step and an evaluation batch of `batch` images on the meta device.
StepMemory predict_memory(const TrainFlags& flags, const TrainData& data, int64_t batch);

/// Throws `DoesNotFit`, after writing the event "refused", when the step needs more than the
/// budget. Without a budget nothing is asked.
void refuse_if_over_budget(const TrainFlags& flags, const TrainData& data, Events& events);

}  // namespace brim::examples
