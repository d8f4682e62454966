#include "brim/base/cuda/memory.h"

#include <cuda_runtime_api.h>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
#include "brim/base/cuda/graph.h"
#include "brim/base/cuda/stream.h"

namespace brim::cuda {

MemoryInfo memory_info(Device device) {
  DeviceScope scope(device);
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

namespace {

void copy(Device device, void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return;
  DeviceScope scope(device);
  const Stream& stream = default_stream(device);
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream.handle()),
        "cudaMemcpyAsync");
  stream.synchronize();
}

}  // namespace

void enqueue_copy(const Stream& stream, void* to, const void* from, int64_t bytes, CopyKind kind) {
  DeviceScope scope(stream.device());
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes),
                        kind == CopyKind::to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice,
                        stream.handle()),
        "cudaMemcpyAsync");
}

void* allocate_pinned(Device device, int64_t bytes) {
  DeviceScope scope(device);  // else the first GPU would get a context, which takes its memory
  void* address = nullptr;
  // Portable: pinned for every GPU's context.
  const cudaError_t status =
      cudaHostAlloc(&address, static_cast<size_t>(bytes), cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the caller is told by the null
    return nullptr;
  }
  check(status, "cudaHostAlloc");
  return address;
}

void free_pinned(Device device, void* address) noexcept {
  try {
    const DeviceScope scope(device);
    cudaFreeHost(address);
  } catch (const DeviceError&) {  // the context is lost: the next call that waits says so
  }
}

void copy_to_device(Device device, void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && is_recording()) return Recording::current()->upload(to, from, bytes);
  copy(device, to, from, bytes, cudaMemcpyHostToDevice);
}

void copy_to_host(Device device, void* to, const void* from, int64_t bytes) {
  expect<DeviceError>(bytes == 0 || !is_recording(), "cuda",
                      "work on {} is being recorded, so there are no values to read yet", device);
  copy(device, to, from, bytes, cudaMemcpyDeviceToHost);
}

}  // namespace brim::cuda
