#include "brim/apps/support/device_flag.h"

#include <fmt/format.h>

#include "brim/base/cuda/devices.h"
#include "brim/base/error.h"

namespace brim::apps {

Device device_for(const std::string& name, const char* purpose) {
  expect<DeviceError>(name == "cpu" || name == "meta" || name.starts_with("cuda"), "device",
                      "--device {} is a card that plan knows; to {} take cpu, cuda or cuda:N", name,
                      purpose);
  Device device = parse_device(name);
  expect<DeviceError>(!device.is_meta(), "device", "--device meta computes nothing; use cpu");
  if (!device.is_cuda()) return device;
  const std::string why = cuda::why_no_device();
  expect<DeviceError>(why.empty(), "device", "--device {} cannot {}: {}", name, purpose, why);
  cuda::require_device("device", device);
  return device;
}

}  // namespace brim::apps
