// The `--device` of `train`, the CPU or a GPU that is here, and of `plan`, which also takes the
// name of a card that need not be (train/cards.h). The meta device stands for it while plans are
// made.
#pragma once

#include "brim/base/stand_in.h"
#include "brim/apps/support/events.h"
#include "brim/apps/support/train_flags.h"

namespace brim::apps {

/// Fills in the device, and its memory where it is a GPU. Before `check_flags`. Throws
/// `DeviceError` with the nearest name for one that is none, and for a GPU that is not here.
StandIn take_planned_device(TrainFlags& flags);

/// The same of who computes there, which `purpose` says for messages ("train"): no cards.
StandIn take_device(TrainFlags& flags, const char* purpose);

/// As many bytes of the device's memory as the flags allow.
std::unique_ptr<memory::Source> source_for(const TrainFlags& flags);

/// Whether others took so much of the GPU since it was looked at that `planned` bytes no longer fit
/// what the flags allow, which they then know. False on a CPU.
bool has_lost_memory(TrainFlags& flags, int64_t planned);

/// Of the GPU's context; null on a CPU, and where it is not known.
Json context_bytes(const TrainFlags& flags);

/// Throws `DeviceError` for what is no device and no card, with the nearest.
void check_device_name(const std::string& name);

/// "t4-16gb, a10-24gb, ...".
std::string card_names();

}  // namespace brim::apps
