// How much memory a GPU has, and copies between it and the host's, for tensors (core/transfer.cc).
// Whoever wants a buffer asks the account, whose source calls the driver (driver.h).
#pragma once

#include <cstdint>

#include "brim/base/device.h"

namespace brim::cuda {

struct MemoryInfo {
  int64_t free = 0, total = 0;
};
/// Bytes of the GPU that nobody holds, and all it has. Throws `DeviceError`. The first call makes
/// the GPU's context, which takes some hundred MiB: they are no longer free then.
MemoryInfo memory_info(Device device);

/// Copies in the order of the device's default stream. The host's bytes have been read, or
/// written, when these return. Throw `DeviceError`.
void copy_to_device(Device device, void* to, const void* from, int64_t bytes);
void copy_to_host(Device device, void* to, const void* from, int64_t bytes);

}  // namespace brim::cuda
