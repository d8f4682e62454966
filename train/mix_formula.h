// What mixed images and labels are made of, the same on every device. For kernels; programs call
// train/mix.h.
#pragma once

#include <cstdint>

#include "brim/data/loader.h"
#include "brim/train/mix.h"

namespace brim {

/// `weight` of a and the rest of b, in 65536ths: whole numbers are the same on every device.
constexpr uint8_t mixed_byte(uint32_t weight, uint32_t a, uint32_t b) {
  return static_cast<uint8_t>((weight * a + (65536 - weight) * b + 32768) >> 16);
}

/// One row of targets: what every class gets, and what is added at the label and at its partner's,
/// which is nothing where these are ignored.
template <class T>
struct MixedTargets {
  T even, own, other;

  constexpr MixedTargets(const kernel::MixLabelsAttributes& by, int64_t label, int64_t partner,
                         int64_t classes) {
    const double of_own = label == data::kIgnoredLabel ? 0 : by.share;
    const double of_other = partner == data::kIgnoredLabel ? 0 : 1 - by.share;
    even = static_cast<T>((of_own + of_other) * by.label_smoothing / static_cast<double>(classes));
    own = static_cast<T>(of_own * (1 - by.label_smoothing));
    other = static_cast<T>(of_other * (1 - by.label_smoothing));
  }
};

}  // namespace brim
