// What the training run will hold, asked before the first byte of a tensor is taken, whether it
// fits, and, where it does not, which smaller batch would. Each prediction runs a few steps and
// evaluations on the meta device, and the search for a batch makes several. For a prediction
// without the flags and events of `train` use train/step_memory.h.
#pragma once

#include <optional>

#include "brim/examples/support/events.h"
#include "brim/examples/support/train_data.h"
#include "brim/examples/support/train_flags.h"

namespace brim::examples {

/// Runs the training at `batch` images on the meta device, as far as its steps and evaluations
/// differ from each other. `data` need not have its loaders.
StepMemory predict_memory(const TrainFlags& flags, const TrainData& data, int64_t batch);

/// The same, or nothing where the model cannot train with so few images.
std::optional<StepMemory> prediction_if_any(const TrainFlags& flags, const TrainData& data,
                                            int64_t batch);

/// The prediction for the batch of the flags, after writing it as the event "plan". Throws
/// `DoesNotFit`, after writing the event "refused", where it is above the budget.
StepMemory plan_memory(const TrainFlags& flags, const TrainData& data, Events& events);

}  // namespace brim::examples
