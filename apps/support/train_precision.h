// The flags of `train` that say what it computes and keeps its numbers in: precision, loss scale,
// gradients and parameters. The type of the optimizer's state is among its own flags
// (train_optimizer.h).
#pragma once

#include <memory>

#include "brim/apps/support/app.h"
#include "brim/apps/support/train_flags.h"

namespace brim::apps {

/// Declares those that bytes follow from; `flags` must outlive the parsing.
void add_precision_flags(App& app, TrainFlags& flags);
/// Declares --loss-scale.
void add_loss_scale_flag(App& app, TrainFlags& flags);

/// Throws `ValueError` for those that do not go together.
void check_precision_flags(const TrainFlags& flags);

/// For float16, unless `--loss-scale none`; null where none is needed.
std::unique_ptr<optim::LossScaler> make_scaler(const TrainFlags& flags);

}  // namespace brim::apps
