// A loader's batch as tensors on a device. Called from the training thread only: device bytes are
// asked for in an order that never depends on the loader's timing. Pixels stay bytes, a quarter of
// what float32 takes; `prepare_input` (train/input.h) makes numbers of them. A `Batch` can go at
// once: it waits until a GPU has read its slot. `Trainer` and `evaluate` call this themselves.
#pragma once

#include <cstdint>
#include <span>

#include "brim/core/tensor.h"
#include "brim/data/loader.h"

namespace brim::data {

struct DeviceBatch {
  Tensor images;  ///< uint8 [count, size, size, 3]; normalise on the device
  Tensor labels;  ///< int64 [count]
};

/// Room for `count` images of size x size pixels and their labels on `device`, as category input.
/// Throws `memory::OutOfMemory`.
DeviceBatch empty_batch(int64_t count, int size, Device device);

/// Copies a batch to `device`, as category input, without waiting for a GPU where the loader's
/// slots are pinned (`LoaderOptions::host`). Throws `memory::OutOfMemory`.
DeviceBatch to_device(const Batch& batch, Device device = Device::cpu());

/// The same from any host memory: `pixels` is count x size x size x 3 for count labels, or
/// `ShapeError` is thrown. Bytes of `slot` may still be read when it returns; with none given the
/// copy is complete.
DeviceBatch to_device(std::span<const uint8_t> pixels, std::span<const int64_t> labels, int size,
                      Device device = Device::cpu(), const Batch* slot = nullptr);

}  // namespace brim::data
