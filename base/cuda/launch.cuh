// The one way to start a kernel of brim's own, so that the same source runs on a GPU and, compiled
// as plain C++, in the emulator of the tests (tests/support/cuda_emulator): `<<<>>>` would be for
// nvcc alone, and so would `__shared__`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "brim/base/cuda/error.h"
#include "brim/base/cuda/kernel_modules.h"

namespace brim::cuda {

#if defined(__CUDACC__) || defined(BRIM_CUDA_EMULATOR)
namespace {

/// Of each file that launches kernels one that does nothing: by it all others of the file are
/// found.
__global__ void module_mark() {}
const KernelModule kernel_module(reinterpret_cast<const void*>(&module_mark));

}  // namespace
#endif

struct Grid {
  dim3 blocks, threads;
  size_t shared_bytes = 0;  ///< of a block, for `shared_memory`
};

/// As many blocks along x. Throws `DeviceError` for more than a grid can have.
inline unsigned grid_size(const char* name, int64_t blocks) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  expect<DeviceError>(0 <= blocks && blocks <= kMost, "cuda",
                      "{} wants {} blocks of threads, and a grid has at most {}", name, blocks,
                      kMost);
  return static_cast<unsigned>(blocks);
}

/// Enqueues `kernel` with these arguments. `name` is for messages. Throws `DeviceError` where it
/// cannot be started; what goes wrong while it runs is thrown by the next call that waits.
template <class... Parameters>
void launch_kernel(const char* name, void (*kernel)(Parameters...), const Grid& grid, void* stream,
                   std::type_identity_t<Parameters>... arguments) {
#ifdef BRIM_CUDA_EMULATOR
  emulator::enqueue(stream, [=] {
    emulator::run(name, grid.blocks, grid.threads, grid.shared_bytes,
                  [&] { kernel(arguments...); });
  });
#else
  void* pointers[] = {&arguments...};
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid.blocks, grid.threads, pointers,
                         grid.shared_bytes, static_cast<cudaStream_t>(stream)),
        name);
#endif
}

/// The block's shared memory, for as many bytes as its `Grid` says; undefined at first. On a
/// boundary of 16 bytes.
template <class T>
__device__ T* shared_memory() {
#ifdef BRIM_CUDA_EMULATOR
  return static_cast<T*>(emulator::shared_memory());
#else
  extern __shared__ __align__(16) unsigned char bytes[];
  return reinterpret_cast<T*>(bytes);
#endif
}

}  // namespace brim::cuda
