// The order of a GPU's streams, for planners: one stream waits for another by an event, without the
// host; bytes go back to the source after the host has waited for the stream that used them.
#pragma once

#include "brim/base/device.h"
#include "brim/memory/stream.h"

namespace brim::memory {

class CudaStreamOrder final : public StreamOrder {
 public:
  explicit CudaStreamOrder(Device device) : device_(device) {}
  void wait(int waiting, int waited) noexcept override;
  void finish(int stream) noexcept override;

 private:
  Device device_;
};

}  // namespace brim::memory
