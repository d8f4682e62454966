// Whether a checkpoint is of the training that wants to go on from it (train/checkpoint.h).
#pragma once

#include "brim/train/checkpoint.h"

namespace brim {

/// Throws `FileError` naming the checkpoint and the first setting, in the order of their names,
/// that differs and for which `CheckpointOptions` lets nobody go on; both values are shown from
/// where they differ.
void require_same_identity(const Checkpoint& found, const CheckpointOptions& here);

}  // namespace brim
