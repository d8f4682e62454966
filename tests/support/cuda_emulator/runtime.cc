// CUDA's runtime on the host: devices, memory, copies, and the troubles that it can be told to
// have. Streams, events and graphs are in runtime_streams.cc.
#include "brim/tests/support/cuda_emulator/runtime.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "brim/base/error.h"
#include "brim/tests/support/cuda_emulator/streams.h"
#include "brim/tests/support/cuda_emulator/troubles.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace {

namespace emulator = brim::cuda::emulator;
using emulator::failed, emulator::state;

constexpr size_t kTotal = size_t{4} << 30;
constexpr size_t kGuard = 64;  // bytes behind each allocation that are nobody's
constexpr unsigned char kUntouched = 0xa5;

constexpr int kRuntime = 13000;

/// What the host's memory stands for.
struct Memory {
  std::mutex mutex;
  std::map<void*, size_t> sizes, pinned;
  size_t used = 0, pinned_used = 0;
};
Memory& memory() {
  static auto* memory = new Memory;
  return *memory;
}

void* allocate(size_t bytes) {
  void* address = ::operator new (bytes + kGuard, std::align_val_t{256}, std::nothrow);
  if (address == nullptr) return nullptr;
  std::memset(address, 0xff, bytes);
  std::memset(static_cast<char*>(address) + bytes, kUntouched, kGuard);
#ifdef __SANITIZE_ADDRESS__
  __asan_poison_memory_region(static_cast<char*>(address) + bytes, kGuard);
#endif
  return address;
}

void release(void* address, [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(static_cast<char*>(address) + bytes, kGuard);
#endif
  ::operator delete (address, std::align_val_t{256});
}

[[maybe_unused]] bool is_untouched(const void* address, size_t bytes) {
  const auto* guard = static_cast<const unsigned char*>(address) + bytes;
  return std::all_of(guard, guard + kGuard, [](unsigned char c) { return c == kUntouched; });
}

thread_local cudaError_t last_error = cudaSuccess;

/// What troubles.h says.
struct Troubles {
  int pinned_fails_in = 0, pinned_error = 0;
  size_t others = 0, others_then = 0;
  int others_in = 0;
  bool no_context = false;
  int driver = kRuntime;
};
Troubles& troubles() {
  static auto* troubles = new Troubles;
  return *troubles;
}

bool is_pinned(const void* address) {
  Memory& held = memory();
  std::lock_guard lock(held.mutex);
  auto after = held.pinned.upper_bound(const_cast<void*>(address));
  if (after == held.pinned.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return address < static_cast<const char*>(begin) + bytes;
}

// Of the device.
bool is_ours(const void* address) {
  Memory& held = memory();
  std::lock_guard lock(held.mutex);
  auto after = held.sizes.upper_bound(const_cast<void*>(address));
  if (after == held.sizes.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return address < static_cast<const char*>(begin) + bytes;
}

// The bytes are nobody's from now on, and are the host's again by what `then` does with it.
cudaError_t forget(void* address, const std::function<void(std::function<void()>)>& then) {
  size_t bytes = 0;
  {
    Memory& held = memory();
    std::lock_guard lock(held.mutex);
    auto found = held.sizes.find(address);
    if (found == held.sizes.end()) return failed(cudaErrorInvalidValue);
    bytes = found->second;
    held.used -= bytes;
    held.sizes.erase(found);
  }
  then([=] { release(address, bytes); });
  return cudaSuccess;
}

}  // namespace

cudaError_t brim::cuda::emulator::failed(cudaError_t error) { return last_error = error; }

cudaError_t brim::cuda::emulator::state() {
  return is_lost() ? failed(cudaErrorIllegalAddress) : cudaSuccess;
}

size_t brim::cuda::emulator::pinned_bytes() {
  Memory& held = memory();
  std::lock_guard lock(held.mutex);
  return held.pinned_used;
}

void brim::cuda::emulator::fail_pinned(int nth, int error) {
  troubles().pinned_fails_in = nth;
  troubles().pinned_error = error;
}

void brim::cuda::emulator::set_others(size_t bytes, int after) {
  if (after == 0) troubles().others = bytes;
  troubles().others_then = bytes;
  troubles().others_in = after;
}
void brim::cuda::emulator::refuse_context(bool on) { troubles().no_context = on; }
void brim::cuda::emulator::set_driver(int version) { troubles().driver = version; }

void brim::cuda::emulator::check_guards([[maybe_unused]] const char* kernel) {
#ifndef __SANITIZE_ADDRESS__  // which sees it as it happens
  Memory& held = memory();
  std::lock_guard lock(held.mutex);
  for (const auto& [address, bytes] : held.sizes)
    expect<DeviceError>(is_untouched(address, bytes), "cuda",
                        "{} writes beyond the end of an allocation of {} bytes", kernel, bytes);
#endif
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = troubles().driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kRuntime;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (troubles().driver < kRuntime) return failed(cudaErrorInsufficientDriver);
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : failed(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceSynchronize() {
  if (emulator::is_recording()) return emulator::refuse_to_wait();
  emulator::run_all();
  return state();
}

cudaError_t cudaMalloc(void** address, size_t bytes) {
  Memory& held = memory();
  std::lock_guard lock(held.mutex);
  *address = nullptr;
  if (emulator::is_lost()) return failed(cudaErrorIllegalAddress);
  if (bytes + troubles().others > kTotal - held.used) return failed(cudaErrorMemoryAllocation);
  *address = allocate(bytes);
  if (*address == nullptr) return failed(cudaErrorMemoryAllocation);
  held.sizes[*address] = bytes;
  held.used += bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* address) {
  if (address == nullptr)
    return troubles().no_context ? failed(cudaErrorMemoryAllocation) : cudaSuccess;
  emulator::run_all();
  return forget(address, [](const std::function<void()>& done) { done(); });
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  if (address == nullptr || !emulator::is_queued()) return cudaFree(address);
  return forget(address, [stream](std::function<void()> done) {
    emulator::enqueue(stream, std::move(done));
  });
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  constexpr size_t kPage = 4096;
  Troubles& now = troubles();
  *address = nullptr;
  if (now.pinned_fails_in > 0 && --now.pinned_fails_in == 0)
    return failed(static_cast<cudaError_t>(now.pinned_error));
  *address = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (*address == nullptr) return failed(cudaErrorMemoryAllocation);
  Memory& held = memory();
  std::lock_guard lock(held.mutex);
  held.pinned[*address] = bytes;
  held.pinned_used += bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* address) {
  if (address == nullptr) return cudaSuccess;
  {
    Memory& held = memory();
    std::lock_guard lock(held.mutex);
    auto found = held.pinned.find(address);
    if (found == held.pinned.end()) return failed(cudaErrorInvalidValue);
    std::memset(address, 0xff, found->second);  // for a copy that is late to find
    held.pinned_used -= found->second;
    held.pinned.erase(found);
  }
  emulator::when_idle([address] { std::free(address); });
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  Memory& held = memory();
  std::lock_guard lock(held.mutex);
  *free = kTotal - held.used - troubles().others;
  if (troubles().others_in > 0 && --troubles().others_in == 0)
    troubles().others = troubles().others_then;
  *total = kTotal;
  return cudaSuccess;
}

// What is late reads pinned memory when it is done; other memory of the host's is read at once, or
// written before the call returns.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (emulator::is_lost()) return failed(cudaErrorIllegalAddress);
  if (emulator::is_queued() && !is_ours(from) && !is_pinned(from)) {
    const auto* begin = static_cast<const char*>(from);
    emulator::enqueue(stream, [to, staged = std::vector<char>(begin, begin + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
    return cudaSuccess;
  }
  emulator::enqueue(stream, [=] { std::memmove(to, from, bytes); });
  return emulator::is_queued() && !is_ours(to) && !is_pinned(to) ? cudaStreamSynchronize(stream)
                                                                 : cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t stream) {
  emulator::enqueue(stream, [=] { std::memset(to, byte, bytes); });
  return cudaSuccess;
}
