// Which inputs an output of `interpolate` reads along one axis, and which outputs read an input,
// the same on every device. Positions grow with the output, so the readers of an input are
// neighbours, and are found by bisection. For kernels; the op is ops/interpolate.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/base/host_device.h"
#include "brim/ops/interpolate.h"
#include "brim/ops/pool_window.h"

namespace brim {

/// `low` with weight 1 - high_weight, `high` with `high_weight`; only `low` where they are the
/// same.
struct InterpolateTaps {
  int64_t low, high;
  double high_weight;

  constexpr double weight(int64_t input) const {
    return input == low ? 1 - high_weight : high_weight;
  }
};

/// One axis, of `in` pixels made to `out`.
struct InterpolateLine {
  InterpolateAxis axis;
  bool blend;  ///< of two neighbours, else the one below
  int64_t in, out;

  BRIM_HOST_DEVICE InterpolateTaps taps(int64_t output) const {
    const double at = (static_cast<double>(output) + axis.shift) * axis.from / axis.to - axis.shift;
    const double inside = std::min(std::max(at, 0.0), static_cast<double>(in - 1));
    const auto low = static_cast<int64_t>(inside);
    const double weight = blend ? inside - static_cast<double>(low) : 0;
    return {low, weight > 0 ? low + 1 : low, weight};
  }
  /// The outputs of which one of the taps is `input`.
  BRIM_HOST_DEVICE Range readers(int64_t input) const {
    const int64_t begin = first([&](const InterpolateTaps& at) { return at.high >= input; });
    const int64_t end = first([&](const InterpolateTaps& at) { return at.low > input; });
    return {begin, end};
  }

 private:
  /// The first output whose taps have passed a point; `out` where none has.
  template <class Passed>
  BRIM_HOST_DEVICE int64_t first(const Passed& passed) const {
    int64_t begin = 0, end = out;
    while (begin < end) {
      const int64_t middle = begin + (end - begin) / 2;
      if (passed(taps(middle)))
        end = middle;
      else
        begin = middle + 1;
    }
    return begin;
  }
};

}  // namespace brim
