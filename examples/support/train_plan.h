// What the training run will hold, asked before the first byte is taken, and whether it fits.
#pragma once

#include "brim/examples/support/events.h"
#include "brim/examples/support/train_data.h"
#include "brim/examples/support/train_flags.h"

namespace brim::examples {

/// Runs the training at `batch` images on the meta device, as far as its steps and evaluations
/// differ from each other. `data` need not have its loaders.
StepMemory predict_memory(const TrainFlags& flags, const TrainData& data, int64_t batch);

/// The prediction for the batch of the flags, after writing it as the event "plan". Throws
/// `DoesNotFit`, after writing the event "refused", where it is above the budget.
StepMemory plan_memory(const TrainFlags& flags, const TrainData& data, Events& events);

}  // namespace brim::examples
