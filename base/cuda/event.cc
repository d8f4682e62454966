#include "brim/base/cuda/event.h"

#include <cuda_runtime_api.h>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"

namespace brim::cuda {

Event::Event(Device device, const EventOptions& options) {
  DeviceScope scope(device);
  cudaEvent_t event = nullptr;
  unsigned flags = options.timed ? cudaEventDefault : cudaEventDisableTiming;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  handle_.reset(event);
}

void Event::Destroy::operator()(CUevent_st* event) const noexcept { cudaEventDestroy(event); }

void Event::record(const Stream& stream) {
  check(cudaEventRecord(handle(), stream.handle()), "cudaEventRecord");
}

void Event::synchronize() const { check(cudaEventSynchronize(handle()), "cudaEventSynchronize"); }

bool Event::is_done() const {
  cudaError_t status = cudaEventQuery(handle());
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // no error of anybody's
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

double seconds_between(const Event& begin, const Event& end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.handle(), end.handle()), "cudaEventElapsedTime");
  return milliseconds / 1e3;
}

}  // namespace brim::cuda
