// Who holds a GPU's memory, in the numbers that `nvidia-smi` has and those it has not: what is
// free, what this program's context and tensors hold, and the rest, which is others'. For the
// tensors alone ask the account (summary.h).
#pragma once

#include <cstdint>
#include <string>

#include "brim/base/device.h"

namespace brim::memory {

struct GpuMemory {
  int64_t total = 0, free = 0;
  int64_t reserved = 0;  ///< by the account
  int64_t context = 0;   ///< as it was measured (base/cuda/context.h); 0 where it was not
  bool context_is_measured = false;
  /// What neither of the two holds: other programs, and what the context grew by since; with the
  /// context where that was not measured.
  int64_t others = 0;
};

/// As the GPU is now. Opens its context. Throws `DeviceError` for a GPU that is not here.
GpuMemory gpu_memory(Device device);
/// The same where `reserved` bytes are tensors', by an account that need not be in force.
GpuMemory gpu_memory(Device device, int64_t reserved);

/// "79.1 GiB in all, 78.2 GiB free, 0 B reserved, context 512 MiB, others 400 MiB".
std::string to_string(const GpuMemory& memory);

}  // namespace brim::memory
