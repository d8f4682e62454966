#include "brim/base/cuda/error.h"

#include <cuda_runtime_api.h>

namespace brim::cuda {

namespace {

// What a kernel did, found by a later call; numbers as in driver_types.h.
bool ends_context(int error) {
  constexpr int kIllegalAddress = 700, kLaunchTimeout = 702, kAssert = 710, kFirstTrap = 714,
                kLaunchFailure = 719;
  return error == kIllegalAddress || error == kLaunchTimeout || error == kAssert ||
         (error >= kFirstTrap && error <= kLaunchFailure);
}

}  // namespace

void check(int error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // or the next check would report it again
  auto status = static_cast<cudaError_t>(error);
  std::string text =
      fmt::format("{} failed: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status));
  if (ends_context(error))
    text +=
        "; the program's context on the GPU is lost, and nothing runs there any more; with "
        "BRIM_CUDA_WAIT=1 each op waits for its kernels, and the error names the op";
  if (status == cudaErrorMemoryAllocation) throw AllocationError("cuda", text);
  throw DeviceError("cuda", text);
}

}  // namespace brim::cuda
