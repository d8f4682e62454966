// Logarithm of softmax along an axis, x - log(sum(exp(x))), without the overflow and the loss of
// digits of log(softmax). For a loss against class numbers use `cross_entropy`, which never writes
// the log-probabilities; this is for losses against distributions, such as soft labels.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"
#include "brim/ops/softmax.h"

namespace brim {

/// y = x - max - log(sum(exp(x - max))) along `axis`, which counts from the end when negative.
/// Any shape, floating dtypes. A line of -inf alone gives NaN. Saves its output.
/// Throws `ShapeError` for an axis that x does not have.
Tensor log_softmax(Tensor x, int axis = -1, Where where = Where::current());

namespace kernel {
/// in: x; out: y. Contiguous.
inline constexpr Kernel<SoftmaxAttributes> log_softmax{"log_softmax"};
/// in: dy, y; out: dx = dy - exp(y) * sum(dy), which may be dy.
inline constexpr Kernel<SoftmaxAttributes> log_softmax_backward{"log_softmax_backward"};
}  // namespace kernel

}  // namespace brim
