#include "brim/memory/cuda_source.h"

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/memory.h"

namespace brim::memory {
namespace {

int64_t free_bytes(Device device) {
  cuda::require_device("memory", device);
  return cuda::memory_info(device).free / kAlignment * kAlignment;
}

}  // namespace

CudaSource::CudaSource(Device device) : Source(free_bytes(device)), device_(device) {}

void CudaSource::copy_to_host(void* to, const void* from, int64_t bytes) {
  cuda::copy_to_host(device_, to, from, bytes);
}

void CudaSource::copy_from_host(void* to, const void* from, int64_t bytes) {
  cuda::copy_to_device(device_, to, from, bytes);
}

void* CudaSource::take(int64_t bytes) { return cuda::allocate(device_, bytes); }

void CudaSource::give_back(void* address, int64_t) noexcept { cuda::deallocate(device_, address); }

}  // namespace brim::memory
