#include "brim/memory/cuda_stream_order.h"

#include "brim/base/cuda/event.h"
#include "brim/base/cuda/stream.h"
#include "brim/base/error.h"

namespace brim::memory {

// A stream that fails has lost the GPU's context, and nothing runs there any more: whoever waits
// for a kernel next is told.

void CudaStreamOrder::wait(int waiting, int waited) noexcept {
  try {
    cuda::Event mark(device_);
    mark.record(cuda::numbered_stream(device_, waited));
    cuda::numbered_stream(device_, waiting).wait(mark);
  } catch (const DeviceError&) {
    finish(waited);
  }
}

void CudaStreamOrder::finish(int stream) noexcept {
  try {
    cuda::numbered_stream(device_, stream).synchronize();
  } catch (const DeviceError&) {
  }
}

}  // namespace brim::memory
