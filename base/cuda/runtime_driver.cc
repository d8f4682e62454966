#include "brim/base/cuda/runtime_driver.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/stream.h"

namespace brim::cuda {
namespace {

/// The runtime forgets the error: the caller is told.
int told(cudaError_t status) {
  if (status != cudaSuccess) cudaGetLastError();
  return status;
}

void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

int copy(Device device, void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
  const Stream& stream = default_stream(device);
  if (int error =
          told(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream.handle())))
    return error;
  return told(cudaStreamSynchronize(stream.handle()));
}

}  // namespace

int RuntimeDriver::memory_info(int64_t* free, int64_t* total) {
  DeviceScope scope(device_);
  size_t free_bytes = 0, total_bytes = 0;
  if (int error = told(cudaMemGetInfo(&free_bytes, &total_bytes))) return error;
  *free = static_cast<int64_t>(free_bytes);
  *total = static_cast<int64_t>(total_bytes);
  return 0;
}

int RuntimeDriver::allocate(uintptr_t* address, int64_t bytes) {
  DeviceScope scope(device_);
  void* memory = nullptr;
  if (int error = told(cudaMalloc(&memory, static_cast<size_t>(bytes)))) return error;
  *address = reinterpret_cast<uintptr_t>(memory);
  return 0;
}

int RuntimeDriver::free(uintptr_t address) {
  DeviceScope scope(device_);
  return told(cudaFree(pointer(address)));
}

int RuntimeDriver::allocate_in_stream(uintptr_t* address, int64_t bytes) {
  DeviceScope scope(device_);
  void* memory = nullptr;
  if (int error = told(
          cudaMallocAsync(&memory, static_cast<size_t>(bytes), default_stream(device_).handle())))
    return error;
  *address = reinterpret_cast<uintptr_t>(memory);
  return 0;
}

int RuntimeDriver::free_in_stream(uintptr_t address) {
  DeviceScope scope(device_);
  return told(cudaFreeAsync(pointer(address), default_stream(device_).handle()));
}

int RuntimeDriver::copy_to_host(void* to, uintptr_t from, int64_t bytes) {
  DeviceScope scope(device_);
  return copy(device_, to, pointer(from), bytes, cudaMemcpyDeviceToHost);
}

int RuntimeDriver::copy_from_host(uintptr_t to, const void* from, int64_t bytes) {
  DeviceScope scope(device_);
  return copy(device_, pointer(to), from, bytes, cudaMemcpyHostToDevice);
}

std::string RuntimeDriver::describe(int error) const {
  auto status = static_cast<cudaError_t>(error);
  return fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace brim::cuda
