// A GPU's memory as a source, under the same planners and account as the host's. One request is one
// cudaMalloc and one return a wait for the whole GPU: put the caching planner above it, as
// `memory::account(Device::cuda())` does. A budget is set as the account's cap.
#pragma once

#include "brim/base/device.h"
#include "brim/memory/source.h"

namespace brim::memory {

/// Its capacity is what the GPU has free when the source is made, after its context: more belongs
/// to others.
class CudaSource final : public Source {
 public:
  /// Throws `DeviceError` where there is no such GPU, and says why.
  explicit CudaSource(Device device);
  void copy_to_host(void* to, const void* from, int64_t bytes) override;
  void copy_from_host(void* to, const void* from, int64_t bytes) override;

 private:
  void* take(int64_t bytes) override;
  void give_back(void* address, int64_t bytes) noexcept override;

  Device device_;
};

}  // namespace brim::memory
