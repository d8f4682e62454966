// What a run of `train` is, as far as its plan and its checkpoints must know it again: one list of
// settings for both, so that a new flag has one place. A plan is for the bytes of a run, which
// seeds and rates do not change; a checkpoint is for its numbers, which micro-batches and threads
// change by rounding alone. In a program of your own write down what its trainings differ in
// (`memory::PlanOptions`, `CheckpointOptions`).
#pragma once

#include <string>

#include "brim/examples/support/train_data.h"
#include "brim/examples/support/train_flags.h"

namespace brim::examples {

/// The question that a plan of the run answers; `rehearsal` is of the same flags and data.
std::string bytes_identity(const TrainFlags& flags, const TrainData& data,
                           const RehearsalOptions& rehearsal);

/// What the numbers of the run follow from, by name.
io::Metadata numbers_identity(const TrainFlags& flags, const TrainData& data);

}  // namespace brim::examples
