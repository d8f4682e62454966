// `train --prune-to flops=0.5`: channels that go while the model trains. In a program of your own
// fill in `TrainerOptions::pruning` (train/pruning.h).
#pragma once

#include <optional>

#include "brim/apps/support/app.h"
#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_flags.h"

namespace brim::apps {

/// Declares the flags; `flags` must outlive the parsing.
void add_pruning_flags(App& app, TrainFlags& flags);

/// Throws `ValueError` naming a bad value. To be called where the data is known: defaults are
/// shares of the updates.
void check_pruning_flags(TrainFlags& flags, const TrainData& data);

/// Where a run goes on that has pruned already: the shapes, the images of an update and those at
/// once that its checkpoint has, where the flags leave them open.
void take_resumed_sizes(TrainFlags& flags, const TrainData& data);

/// Nothing without `--prune-to`. Refers to both.
std::optional<PruningOptions> pruning_options(const TrainFlags& flags, const TrainData& data);

/// What numbers follow from, for a checkpoint; "" without `--prune-to`.
std::string pruning_identity(const TrainFlags& flags);

}  // namespace brim::apps
