// bfloat16 with stochastic rounding: a number between two neighbours becomes the upper one as often
// as it is near to it, so that the mean of many roundings is the number. Updates that are too small
// to change a bfloat16 by rounding to nearest then add up as they should. Gupta et al., "Deep
// Learning with Limited Numerical Precision", ICML 2015.
//
// Which way is a pure function of (key, update, element): the same on every run, thread and
// device, and there is no state to save (base/random.h).
#pragma once

#include <bit>
#include <cstdint>

#include "brim/base/host_device.h"
#include "brim/base/random.h"
#include "brim/core/half.h"

namespace brim::optim {

/// For `value` with 16 random bits. Infinities and NaN stay what they are; a number beyond the
/// largest bfloat16 may become infinite.
BRIM_HOST_DEVICE constexpr BFloat16 round_stochastically(float value, uint16_t random) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  if ((word & 0x7F800000u) == 0x7F800000u) return BFloat16(value);
  BFloat16 rounded;
  rounded.bits = static_cast<uint16_t>((word + random) >> 16);
  return rounded;
}

/// Where a tensor's roundings come from.
struct RoundingStream {
  RandomKey key;
  uint64_t update = 0;

  /// The words for elements [8 * block, 8 * block + 8), two of 16 bits in each.
  constexpr std::array<uint32_t, 4> words(uint64_t block) const {
    return philox(key, update, block);
  }
  /// Of one element: the reference for kernels.
  constexpr uint16_t bits(uint64_t element) const {
    const uint32_t word = words(element / 8)[element / 2 % 4];
    return static_cast<uint16_t>(element % 2 == 0 ? word : word >> 16);
  }
};

}  // namespace brim::optim
