#include "brim/ops/leaky_relu.h"

#include "brim/ops/unary.h"

namespace brim {

Tensor leaky_relu(Tensor x, LeakyReluOptions options, Where where) {
  double slope = options.negative_slope;
  return apply_unary(std::move(x), where, slope >= 0 ? UnarySaves::output : UnarySaves::input,
                     kernel::leaky_relu, kernel::leaky_relu_backward, {slope}, {slope});
}

}  // namespace brim
