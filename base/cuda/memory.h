// A GPU's memory, as the runtime gives it: bytes, and copies between them and the host. For the
// account's source (memory/cuda_source.h) and for copies of tensors (core/transfer.cc); whoever
// wants a buffer asks the account.
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

/// `bytes` (above 0) on a boundary of at least 256 bytes, or null where there is no room. Throws
/// `DeviceError` for any other failure.
void* allocate(Device device, int64_t bytes);
/// Waits for the GPU's work, then gives back what `allocate` returned. What fails is left to the
/// next call that can throw.
void deallocate(Device device, void* address) noexcept;

/// Copies in the order of the device's default stream. The host's bytes have been read, or
/// written, when these return. Throw `DeviceError`.
void copy_to_device(Device device, void* to, const void* from, int64_t bytes);
void copy_to_host(Device device, void* to, const void* from, int64_t bytes);

}  // namespace brim::cuda
