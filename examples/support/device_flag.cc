#include "brim/examples/support/device_flag.h"

#include <fmt/format.h>

#include "brim/base/cuda/devices.h"
#include "brim/base/error.h"

namespace brim::examples {

Device device_for(const std::string& name, const char* purpose) {
  Device device = parse_device(name);
  expect<DeviceError>(!device.is_meta(), "device", "--device meta computes nothing; use cpu");
  if (!device.is_cuda()) return device;
  std::string why = cuda::why_no_device();
  if (why.empty()) why = "not every op has a kernel there yet";
  raise<DeviceError>("device", "--device {} cannot {}: {}", name, purpose, why);
}

}  // namespace brim::examples
