// Softmax along an axis, exp(x) / sum(exp(x)). For its logarithm use `log_softmax`, for a loss
// `cross_entropy`: both are more accurate than what can be made from this. It is for where
// probabilities themselves are wanted. Three sweeps over each line, with the sum in double.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"

namespace brim {

/// y = exp(x - max) / sum(exp(x - max)) along `axis`, which counts from the end when negative.
/// Any shape, floating dtypes. A line of -inf alone gives NaN. Saves its output.
/// Throws `ShapeError` for an axis that x does not have.
Tensor softmax(Tensor x, int axis = -1, Where where = Where::current());

namespace kernel {
struct SoftmaxAttributes {
  int axis = 0;  ///< not negative
};
/// in: x; out: y. Contiguous.
inline constexpr Kernel<SoftmaxAttributes> softmax{"softmax"};
/// in: dy, y; out: dx = y * (dy - sum(dy * y)), which may be dy.
inline constexpr Kernel<SoftmaxAttributes> softmax_backward{"softmax_backward"};
}  // namespace kernel

}  // namespace brim
