// Samples for ops of one tensor that work element by element: random inputs from a range, and the
// formula in double as the reference. For the `OpSpec` of `relu` and its like; for ops of two
// tensors see broadcast_reference.h. What is special about an op, such as NaN and the points where
// it has no derivative, is for its own tests: random inputs do not hit them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "brim/tests/support/op_spec.h"

namespace brim::testing {

struct UnaryCase {
  std::function<Tensor(Tensor)> op;
  std::function<double(double)> formula;
  float low = -2, high = 2;  ///< of the inputs
  /// Where the formula has no derivative.
  std::vector<double> kinks = {};
  bool differentiable = true;
  std::string name = "";  ///< in front of the names of the samples
};

/// Of several shapes, one without elements among them.
std::vector<OpSample> unary_samples(const UnaryCase& of);

/// The values of an op at points of float32, and the gradients of their sum.
struct UnaryResult {
  std::vector<float> y, dx;
};
UnaryResult unary_at(const std::vector<float>& points, const std::function<Tensor(Tensor)>& op);

}  // namespace brim::testing
