// Where a tensor lives: `cpu`, `meta` (shapes without bytes), or `cuda:N`. A `Device` is a name and
// says nothing of what is there: `memory::account` throws for one that this build has no memory
// for, and `cuda::device_count` (base/cuda/devices.h) tells how many GPUs there are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "brim/base/text_formatter.h"

namespace brim {

enum class DeviceType : uint8_t { cpu, meta, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;

  static constexpr Device cpu() { return {}; }
  static constexpr Device meta() { return {DeviceType::meta, 0}; }
  static constexpr Device cuda(int index = 0) { return {DeviceType::cuda, index}; }
  constexpr bool is_cpu() const { return type == DeviceType::cpu; }
  constexpr bool is_meta() const { return type == DeviceType::meta; }
  constexpr bool is_cuda() const { return type == DeviceType::cuda; }

  friend constexpr bool operator==(Device, Device) = default;
};

std::string_view to_string(DeviceType type);
/// `cpu`, `meta`, `cuda:0`.
std::string to_string(Device device);

/// Parses `cpu`, `meta`, `cuda` or `cuda:N`; throws `DeviceError` for anything else.
Device parse_device(std::string_view text);

}  // namespace brim

template <>
struct fmt::formatter<brim::DeviceType> : brim::TextFormatter<brim::DeviceType> {};

template <>
struct fmt::formatter<brim::Device> : brim::TextFormatter<brim::Device> {};
