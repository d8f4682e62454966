// All kernels of the program, by file, so that their code is on the GPU before anything is planned:
// since CUDA 12.2 it would come as each first runs, and take memory that the plan has given away.
// launch.cuh enters every file; open_context (context.h) loads them. Kernels of NVIDIA's libraries
// are not among them.
#pragma once

#include <string>

#include "brim/base/device.h"

namespace brim::cuda {

/// A file's kernels, which the driver calls a module: a list that is complete before `main`.
struct KernelModule {
  explicit KernelModule(const void* kernel) noexcept : kernel(kernel), next(first) { first = this; }

  const void* const kernel;  ///< any of them
  const KernelModule* const next;
  static inline const KernelModule* first = nullptr;
};

struct LoadedKernels {
  int count = 0;
  /// The first call that failed, and how: the kernels of its file come as they first run, and are
  /// beyond what was measured. "" where all are there.
  std::string failure;
};

/// Loads the kernels of all files onto a GPU, which has a context. Throws `AllocationError` for
/// want of memory.
LoadedKernels load_kernels(Device device);

}  // namespace brim::cuda
