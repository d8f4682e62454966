#include "brim/base/device.h"

#include <charconv>

#include "brim/base/error.h"

namespace brim {

std::string_view to_string(DeviceType type) {
  switch (type) {
    case DeviceType::cpu:
      return "cpu";
    case DeviceType::meta:
      return "meta";
    case DeviceType::cuda:
      return "cuda";
  }
  raise<InternalError>("device", "unknown device type {}", static_cast<int>(type));
}

std::string to_string(Device device) {
  std::string name(to_string(device.type));
  return device.is_cuda() ? name + ":" + std::to_string(device.index) : name;
}

Device parse_device(std::string_view text) {
  if (text == "cpu") return Device::cpu();
  if (text == "meta") return Device::meta();
  if (text == "cuda") return Device::cuda();
  int index = 0;
  if (text.starts_with("cuda:")) {
    const char* end = text.data() + text.size();
    auto [rest, status] = std::from_chars(text.data() + 5, end, index);
    if (status == std::errc() && rest == end && index >= 0) return Device::cuda(index);
  }
  raise<DeviceError>("device", "expected cpu, meta, cuda or cuda:N, got '{}'", text);
}

}  // namespace brim
