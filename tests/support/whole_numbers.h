// Small whole numbers: their products, and sums of them up to 2^24, are exact in float32, in any
// order. So a result that is rounded once has the bits of the float64 one in halves, and one that
// is rounded on the way has not.
#pragma once

#include <cmath>
#include <vector>

#include "brim/core/tensor.h"

namespace brim::testing {

/// From -3 to 3.
inline Tensor whole_numbers(const Shape& shape, Dtype dtype, uint64_t seed) {
  std::vector<double> values = uniform(shape, -4, 4, RandomKey{seed}).to_vector<double>();
  for (double& value : values) value = std::trunc(value);
  return convert_to(from_vector(values, shape), {.dtype = dtype});
}

}  // namespace brim::testing
