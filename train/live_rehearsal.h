// A rehearsal of a training that exists already, with its own model and optimizer: what it would
// hold with other micro-batches. For a training that is yet to be made fill in `RehearsalOptions`.
#pragma once

#include "brim/train/rehearsal.h"
#include "brim/train/training_data.h"

namespace brim {

/// What it refers to must outlive it. During the rehearsal the model's tensors are on the meta
/// device; it has its values again afterwards. Each update is one batch of the source, in parts of
/// `batch` images. Throws `ValueError` for an optimizer that cannot be made again
/// (`Optimizer::like`).
RehearsalOptions rehearsal_of(nn::Module& model, const optim::Optimizer& optimizer,
                              const TrainingData& data, const TrainerOptions& options,
                              int64_t batch);

}  // namespace brim
