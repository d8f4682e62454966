#include "brim/autograd/cuda_copies.h"

#include "brim/base/cuda/memory.h"
#include "brim/base/cuda/stream.h"
#include "brim/base/error.h"

namespace brim::autograd {
namespace {

// Beside number 0, where the work is.
constexpr int kToHost = 1, kToDevice = 2;

}  // namespace

size_t CudaCopies::take_event() {
  if (free_.empty()) {
    free_.reserve(events_.size() + 1);
    events_.emplace_back(device_);
    free_.push_back(events_.size() - 1);
  }
  const size_t event = free_.back();
  free_.pop_back();
  return event;
}

uint64_t CudaCopies::begin(void* to, const void* from, int64_t bytes, CopyDirection direction) {
  const bool to_host = direction == CopyDirection::to_host;
  const cuda::Stream& work = cuda::numbered_stream(device_, memory::current_stream());
  const cuda::Stream& copies = cuda::numbered_stream(device_, to_host ? kToHost : kToDevice);
  const size_t event = take_event();
  try {
    events_[event].record(work);
    copies.wait(events_[event]);
    cuda::enqueue_copy(copies, to, from, bytes,
                       to_host ? cuda::CopyKind::to_host : cuda::CopyKind::to_device);
    events_[event].record(copies);
  } catch (...) {
    free_.push_back(event);
    throw;
  }
  return event;
}

void CudaCopies::finish(uint64_t copy) noexcept {
  try {
    cuda::numbered_stream(device_, memory::current_stream()).wait(events_[copy]);
  } catch (const DeviceError&) {  // the context is lost: the next call that waits says so
  }
  free_.push_back(copy);
}

void CudaCopiesOrder::finish(int) noexcept {
  streams_.finish(kToHost);
  streams_.finish(kToDevice);
}

}  // namespace brim::autograd
