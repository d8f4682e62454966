// All kernels of the program, by file, so that their code is on the GPU before anything is planned:
// since CUDA 12.2 it would come as each first runs, and take memory that the plan has given away.
// launch.cuh enters every file; open_context (context.h) loads them. Kernels of NVIDIA's libraries
// are not among them.
#pragma once

#include "brim/base/device.h"

namespace brim::cuda {

/// A file's kernels, which the driver calls a module: a list that is complete before `main`.
struct KernelModule {
  explicit KernelModule(const void* kernel) noexcept : kernel(kernel), next(first) { first = this; }

  const void* const kernel;  ///< any of them
  const KernelModule* const next;
  static inline const KernelModule* first = nullptr;
};

/// Loads the kernels of all files onto a GPU, which has a context. How many there are; fewer where
/// the driver does not tell, or has no room: these are loaded when they first run, as ever.
int load_kernels(Device device) noexcept;

}  // namespace brim::cuda
