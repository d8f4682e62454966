#include "brim/base/cuda/stream.h"

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <utility>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
#include "brim/base/cuda/event.h"

namespace brim::cuda {

Stream::Stream(Device device) : device_(device) {
  DeviceScope scope(device);
  cudaStream_t stream = nullptr;
  // Not ordered with the legacy default stream, to which other libraries of a program may enqueue.
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  handle_.reset(stream);
}

void Stream::Destroy::operator()(CUstream_st* stream) const noexcept { cudaStreamDestroy(stream); }

void Stream::synchronize() const {
  check(cudaStreamSynchronize(handle()), "cudaStreamSynchronize");
}

void Stream::wait(const Event& event) const {
  check(cudaStreamWaitEvent(handle(), event.handle(), 0), "cudaStreamWaitEvent");
}

const Stream& numbered_stream(Device device, int number) {
  using Key = std::pair<int, int>;
  static std::mutex mutex;
  static auto* streams = new std::map<Key, Stream>;  // tensors may outlive every static object
  const Key key{device.index, number};
  std::lock_guard lock(mutex);
  auto found = streams->find(key);
  if (found == streams->end()) found = streams->emplace(key, Stream(device)).first;
  return found->second;
}

const Stream& default_stream(Device device) { return numbered_stream(device, 0); }

}  // namespace brim::cuda
