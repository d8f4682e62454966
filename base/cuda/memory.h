// How much memory a GPU has, and copies between it and the host's, for tensors (core/transfer.cc).
// Whoever wants a buffer asks the account, whose source calls the driver (driver.h).
#pragma once

#include <cstdint>

#include "brim/base/device.h"

namespace brim::cuda {

class Stream;

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

enum class CopyKind { to_host, to_device };
/// The same on a stream, without waiting: from and to the host's pinned memory beside the work of
/// other streams, else as the runtime stages it.
void enqueue_copy(const Stream& stream, void* to, const void* from, int64_t bytes, CopyKind kind);

/// `bytes` (above 0) of the host's memory that stays where it is, which this GPU, and any other,
/// copies from and to by itself; null where there is no room. Throws `DeviceError`.
void* allocate_pinned(Device device, int64_t bytes);
void free_pinned(Device device, void* address) noexcept;

}  // namespace brim::cuda
