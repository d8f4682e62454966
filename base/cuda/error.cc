#include "brim/base/cuda/error.h"

#include <cuda_runtime_api.h>

#include "brim/base/cuda/last_op.h"

namespace brim::cuda {

namespace {

// What a kernel did, found by a later call; numbers as in driver_types.h.
bool ends_context(int error) {
  constexpr int kIllegalAddress = 700, kLaunchTimeout = 702, kAssert = 710, kFirstTrap = 714,
                kLaunchFailure = 719;
  return error == kIllegalAddress || error == kLaunchTimeout || error == kAssert ||
         (error >= kFirstTrap && error <= kLaunchFailure);
}

/// "; found after conv2d in layer1.0.conv1 was enqueued: ..."; "" where nothing was.
std::string found_after() {
  if (last_op.name == nullptr) return "";
  const bool has_module = last_op.module != nullptr && !last_op.module->empty();
  return fmt::format(
      "; found after {}{}{} was enqueued: the fault is its own or that of an op since the last "
      "wait before it",
      last_op.name, has_module ? " in " : "", has_module ? *last_op.module : "");
}

}  // namespace

bool is_nearly_full() noexcept {
  constexpr size_t kNext = size_t{16} << 20;
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) return free < kNext;
  cudaGetLastError();
  return false;
}

void check(int error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // or the next check would report it again
  auto status = static_cast<cudaError_t>(error);
  std::string text =
      fmt::format("{} failed: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status));
  if (ends_context(error))
    text += found_after() +
            "; the program's context on the GPU is lost, and nothing runs there any more; with "
            "BRIM_CUDA_WAIT=1 each op waits for its kernels, and the error names the op";
  if (status == cudaErrorMemoryAllocation) throw AllocationError("cuda", text);
  throw DeviceError("cuda", text);
}

}  // namespace brim::cuda
