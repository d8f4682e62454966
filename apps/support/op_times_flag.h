// `--op-times`: where the times come from by which a program chooses what to recompute, and which
// it predicts. They change no number that is trained.
#pragma once

#include "brim/apps/support/app.h"
#include "brim/apps/support/train_flags.h"

namespace brim::apps {

void add_op_times_flag(App& app, TrainFlags& flags);

/// Fills in `op_times` for the device and the threads that are set; measures this machine where
/// that was asked for and no file has it. Warnings go to standard error.
void set_op_times(TrainFlags& flags);

/// Says where predicted times come from, and what was timed for `measured` so far.
void say_op_times(const TrainFlags& flags);

}  // namespace brim::apps
