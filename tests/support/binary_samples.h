// Samples and error cases for ops of two broadcasting tensors that work element by element, with
// the formula in double as the reference. For the `OpSpec` of `add` and its like; for ops of one
// tensor see unary_samples.h.
#pragma once

#include <functional>
#include <vector>

#include "brim/tests/support/op_spec.h"

namespace brim::testing {

struct BinaryCase {
  std::function<Tensor(Tensor, Tensor)> op;
  std::function<double(double, double)> formula;
  float low = -2, high = 2;  ///< of b's elements; those of a are in [-2, 2]
};

/// Of shapes that broadcast in the ways that kernels treat apart, one without elements among them.
std::vector<OpSample> binary_samples(const BinaryCase& of);

/// Shapes, dtypes and devices that do not go together.
std::vector<ErrorCase> binary_errors(const std::function<Tensor(Tensor, Tensor)>& op);

}  // namespace brim::testing
