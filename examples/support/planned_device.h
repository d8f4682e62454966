// The `--device` of `plan`: the CPU, a GPU that is here, or the name of a card that need not be
// (train/cards.h). The meta device stands for it while plans are made.
#pragma once

#include "brim/base/stand_in.h"
#include "brim/examples/support/train_flags.h"

namespace brim::examples {

/// Fills in the device, and its memory where it is a GPU. Before `check_flags`. Throws
/// `DeviceError` with the nearest name for one that is none, and for a GPU that is not here.
StandIn take_planned_device(TrainFlags& flags);

/// "t4-16gb, a10-24gb, ...".
std::string card_names();

}  // namespace brim::examples
