// A mark in a stream: to order two streams without the host waiting, to wait for part of a stream,
// to measure what lies between two marks. To wait for all of a stream use `Stream::synchronize`.
#pragma once

#include <memory>

#include "brim/base/cuda/stream.h"

struct CUevent_st;  // CUDA's cudaEvent_t points to one

namespace brim::cuda {

struct EventOptions {
  bool timed = false;  ///< for `seconds_between`; costs a little where it is not needed
};

class Event {
 public:
  /// An event that nothing waits for before it is recorded. Throws `DeviceError`.
  explicit Event(Device device, const EventOptions& options = {});

  /// Marks the end of what is enqueued on `stream`, of the same GPU, so far.
  void record(const Stream& stream);
  /// Waits for the mark.
  void synchronize() const;
  /// Whether the mark is reached.
  bool is_done() const;
  CUevent_st* handle() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(CUevent_st* event) const noexcept;
  };

  std::unique_ptr<CUevent_st, Destroy> handle_;
};

/// Seconds from one mark to a later one, both timed, recorded and reached.
double seconds_between(const Event& begin, const Event& end);

}  // namespace brim::cuda
