// GPUs by name, for plans on machines that have none: how many bytes and what rates. All of it is
// typical, from the makers' data sheets and from what CUDA reports of such cards; a plan for a card
// is a bound, and one for a GPU that is here (`stand_in_for`) is exact.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "brim/base/stand_in.h"
#include "brim/core/dtype.h"
#include "brim/train/device_speed.h"

namespace brim {

struct Card {
  std::string_view name;     ///< "h100-80gb"
  int64_t memory = 0;        ///< bytes, as CUDA reports them
  int64_t context = 0;       ///< of those, what the runtime and its libraries hold before a tensor
  double float32_flops = 0;  ///< a second, without tensor cores: float32 is not rounded
  double half_flops = 0;     ///< a second, with them, summed in float32
  double bytes_per_second = 0;
  double host_bytes_per_second = 0;  ///< over PCIe, one way
};

std::span<const Card> cards();

/// Null for a name that is none.
const Card* find_card(std::string_view name);

/// Whose rates stand for those of a GPU that nobody has measured: good for ratios.
const Card& typical_card();

/// Of products in `precision`: as far as ops wait for arithmetic or for traffic alone.
DeviceSpeed speed_of(const Card& card, Dtype precision);

/// For plans of what runs on such a card: `StandInScope scope(stand_in_for(card))`. Throws
/// `DeviceError` in a build without the CUDA toolkit, which has no kernels to be asked.
StandIn stand_in_for(const Card& card);
/// For the CPU or a GPU that is here. Throws `DeviceError` for one that is not.
StandIn stand_in_for(Device device);

}  // namespace brim
