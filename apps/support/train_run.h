// A whole training as the flags say: what `train` does, and `prune` after it has pruned. In a
// program of your own use `Trainer` (train/trainer.h).
#pragma once

#include "brim/apps/support/train_flags.h"

namespace brim::apps {

/// Plans, trains, evaluates and saves; writes events and progress. Throws what is wrong with flags,
/// data or files; `DoesNotFit`, `Stopped` (program.h).
void run_training(TrainFlags flags);

}  // namespace brim::apps
