// A batch of host memory as what a network is fed with, on the device: bytes, which the device
// makes numbers of, or numbers. `Trainer`, `evaluate` and rehearsals call it; for bytes alone there
// is `data::to_device` (data/device_batch.h).
#pragma once

#include "brim/train/batch_source.h"
#include "brim/train/input.h"

namespace brim {

/// Copies to `input.device`, as category input. Throws `memory::OutOfMemory`.
data::DeviceBatch upload(const HostBatch& batch, const InputOptions& input);

/// Room for such a batch, without values. On the meta device it has no bytes.
data::DeviceBatch empty_upload(int64_t images, int size, const InputOptions& input);

}  // namespace brim
