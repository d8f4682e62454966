// How a loss over many samples becomes the result.
#pragma once

#include <cstdint>

namespace brim {

enum class Reduction : uint8_t {
  mean,  ///< a scalar: the sum over the samples that count, divided by their number
  sum,   ///< a scalar
  none,  ///< one value per sample
};

}  // namespace brim
