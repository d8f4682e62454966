// The device that the meta device stands for: whose kernels are asked what scratch they take, and
// whose rules hold, while a step is run without bytes. The CPU, unless a scope says otherwise. A
// GPU need not be there: what only its libraries know is then a bound.
#pragma once

#include <cstdint>

#include "brim/base/device.h"
#include "brim/base/gpu_description.h"

namespace brim {

struct StandIn {
  Device device = Device::cpu();
  /// Whether the GPU `device` is here to be asked. Where it is not, the index says nothing.
  bool is_here = true;
  /// A GPU that is not here, where it is known: cuDNN can be asked what its convolutions take.
  const GpuDescription* description = nullptr;
  /// What memory is taken of the device in; 0: as the host gives it.
  int64_t page_bytes = 0;
};

/// Of this thread.
const StandIn& stand_in();

/// `device`, and for the meta device the one that it stands for.
inline Device device_meant(Device device) { return device.is_meta() ? stand_in().device : device; }

/// Sets it for this thread until the scope ends.
class StandInScope {
 public:
  explicit StandInScope(const StandIn& stand_in);
  ~StandInScope();
  StandInScope(const StandInScope&) = delete;
  StandInScope& operator=(const StandInScope&) = delete;

 private:
  StandIn before_;
};

}  // namespace brim
