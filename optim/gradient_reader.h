// How every kernel of an optimizer reads an element of a gradient: divided by the loss scale, then
// clipped by value, then by norm, in this order (optim/clip.h). Without clipping the limit is
// infinite and the factor 1, which change no bit, so that no second path is needed.
#pragma once

#include <algorithm>
#include <limits>

#include "brim/base/host_device.h"
#include "brim/optim/step_scalars.h"

namespace brim::optim {

template <class T>
struct GradientReader {
  T inverse_scale, clip_value, clip_factor = 1;

  BRIM_HOST_DEVICE static GradientReader from(const double* scalars) {
    return {static_cast<T>(scalars[StepScalars::kInverseScale]),
            static_cast<T>(scalars[StepScalars::kClipValue]),
            static_cast<T>(scalars[StepScalars::kClipFactor])};
  }
  /// Does it give every element as it is?
  BRIM_HOST_DEVICE bool is_plain() const {
    return inverse_scale == 1 && clip_value == std::numeric_limits<T>::infinity() &&
           clip_factor == 1;
  }
  // The element comes first in both comparisons: a NaN stays one.
  BRIM_HOST_DEVICE T operator()(T element) const {
    T unscaled = element * inverse_scale;
    return std::min(std::max(unscaled, -clip_value), clip_value) * clip_factor;
  }
};

}  // namespace brim::optim
