#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
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

struct CUstream_st {
  std::shared_ptr<brim::cuda::emulator::StreamQueue> queue = brim::cuda::emulator::new_queue();
};
struct CUevent_st {
  bool timed = false;
  brim::cuda::emulator::Mark place;
  std::chrono::steady_clock::time_point mark;
};
struct CUgraph_st {
  std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
};

namespace {

namespace emulator = brim::cuda::emulator;

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

cudaError_t failed(cudaError_t error) { return last_error = error; }

thread_local CUgraph_st* recording = nullptr;
thread_local bool recording_waited = false;

/// What troubles.h says.
struct Troubles {
  bool is_late = false;
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

const std::shared_ptr<emulator::StreamQueue>& queue_of(cudaStream_t stream) {
  static auto* unnamed = new CUstream_st;
  return stream == nullptr ? unnamed->queue : stream->queue;
}

cudaError_t state() { return emulator::is_lost() ? failed(cudaErrorIllegalAddress) : cudaSuccess; }

// What a recording does not allow.
cudaError_t waits_in_recording() {
  recording_waited = true;
  return failed(cudaErrorStreamCaptureUnsupported);
}

bool is_queued() { return troubles().is_late && recording == nullptr; }

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

void brim::cuda::emulator::enqueue(void* stream, std::function<void()> work) {
  if (recording != nullptr) return recording->work.push_back(std::move(work));
  if (!troubles().is_late) return work();
  add(*queue_of(static_cast<cudaStream_t>(stream)), std::move(work));
}

brim::cuda::emulator::LateScope::LateScope(OtherStreams others) {
  set_other_streams(others);
  troubles().is_late = true;
}

brim::cuda::emulator::LateScope::~LateScope() {
  run_all();
  forgive();
  troubles().is_late = false;
  last_error = cudaSuccess;
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
  if (recording != nullptr) return waits_in_recording();
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
  if (address == nullptr || !is_queued()) return cudaFree(address);
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
  if (is_queued() && !is_ours(from) && !is_pinned(from)) {
    const auto* begin = static_cast<const char*>(from);
    emulator::enqueue(stream, [to, staged = std::vector<char>(begin, begin + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
    return cudaSuccess;
  }
  emulator::enqueue(stream, [=] { std::memmove(to, from, bytes); });
  return is_queued() && !is_ours(to) && !is_pinned(to) ? cudaStreamSynchronize(stream)
                                                       : cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t stream) {
  emulator::enqueue(stream, [=] { std::memset(to, byte, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (recording != nullptr) return waits_in_recording();
  emulator::run_to(emulator::end_of(queue_of(stream)));
  return state();
}

// For what was recorded last, whatever becomes of the event.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (is_queued()) emulator::add_wait(*queue_of(stream), event->place);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st{.timed = (flags & cudaEventDisableTiming) == 0, .place = {}, .mark = {}};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->mark = std::chrono::steady_clock::now();
  event->place = is_queued() ? emulator::end_of(queue_of(stream)) : emulator::Mark{};
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  emulator::run_to(event->place);
  return state();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return emulator::is_reached(event->place) ? cudaSuccess : failed(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->timed || !end->timed) return failed(cudaErrorInvalidResourceHandle);
  if (!emulator::is_reached(begin->place) || !emulator::is_reached(end->place))
    return failed(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(end->mark - begin->mark).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  if (recording != nullptr) return failed(cudaErrorStreamCaptureUnsupported);
  recording = new CUgraph_st;
  recording_waited = false;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = std::exchange(recording, nullptr);
  if (*graph == nullptr) return failed(cudaErrorInvalidValue);
  if (!recording_waited) return cudaSuccess;
  delete std::exchange(*graph, nullptr);
  return failed(cudaErrorStreamCaptureInvalidated);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  for (const std::function<void()>& work : graph->work) emulator::enqueue(stream, work);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}
