#include "brim/base/cuda/error.h"

#include <cuda_runtime_api.h>

namespace brim::cuda {

void check(int error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // or the next check would report it again
  auto status = static_cast<cudaError_t>(error);
  std::string text =
      fmt::format("{} failed: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status));
  if (status == cudaErrorMemoryAllocation) throw AllocationError("cuda", text);
  throw DeviceError("cuda", text);
}

}  // namespace brim::cuda
