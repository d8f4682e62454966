// What a context is measured by and made of, apart, for emulated GPUs have neither NVML nor
// libraries. For context.cc.
#pragma once

#include <cstdint>
#include <optional>

#include "brim/base/cuda/error.h"
#include "brim/base/device.h"

namespace brim::cuda {

/// Of the GPU, asked without a context there; nothing where nobody tells.
std::optional<int64_t> free_without_context(Device device);

/// Runs it. A library that is missing is left to the op that wants it. What fails is thrown: it
/// would stay, and be put on another op.
template <class Work>
void leave_to_ops(const Work& work) {
  try {
    work();
  } catch (const MissingLibraryError&) {
  }
}

/// The handles of cuBLASLt and cuDNN, of what is there of them. Throws `AllocationError`.
void open_libraries(Device device);

}  // namespace brim::cuda
