// A queue of work on one GPU. brim enqueues everything that it does on a GPU on that GPU's one
// default stream, so kernels and copies run in the order of the program, and the account may give
// scratch back as soon as the kernel that used it is enqueued. Streams of your own run beside it:
// order them with events (event.h).
#pragma once

#include <memory>

#include "brim/base/device.h"

struct CUstream_st;  // CUDA's cudaStream_t points to one

namespace brim::cuda {

class Event;

class Stream {
 public:
  /// A new stream. Throws `DeviceError`.
  explicit Stream(Device device);

  Device device() const { return device_; }
  CUstream_st* handle() const { return handle_.get(); }
  /// Waits until all work enqueued so far is done. Throws `DeviceError` when some of it failed.
  void synchronize() const;
  /// Work enqueued from here on starts after `event`. The host does not wait.
  void wait(const Event& event) const;

 private:
  struct Destroy {
    void operator()(CUstream_st* stream) const noexcept;
  };

  Device device_;
  std::unique_ptr<CUstream_st, Destroy> handle_;
};

/// One of the streams that brim's work on a GPU goes to, by its number (memory/stream.h); made at
/// first use, never destroyed.
const Stream& numbered_stream(Device device, int number);
/// Number 0, where all work goes that was not put elsewhere.
const Stream& default_stream(Device device);

}  // namespace brim::cuda
