// The emulated GPU: it has no virtual memory, no context and no library of NVIDIA's.
#include "brim/base/cuda/context.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/runtime_driver.h"

namespace brim::cuda {

std::shared_ptr<Driver> driver_of(Device device) {
  require_device("cuda", device);
  return std::make_shared<RuntimeDriver>(device);
}

const Context& open_context(Device device) {
  require_device("cuda", device);
  static const Context nothing{.bytes = 0, .is_measured = true};
  return nothing;
}

}  // namespace brim::cuda
