// Maximum over axes: PyTorch's `max` with one axis and `amax` with many, the values alone; where
// the maxima are is `argmax`. For windows of images use `max_pool2d`, for a probability of being
// the largest `softmax`. Values are exact, so the order of work does not matter.
#pragma once

#include <vector>

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"
#include "brim/ops/sum.h"

namespace brim {

/// y = the largest of x over `axes`, in any order; they count from the end when negative, and none
/// means all. Floating dtypes. NaN wins over everything, and the first NaN over others. Of equal
/// values the first in row-major order gets the whole gradient, as in PyTorch's `max` along an axis
/// (its `amax`, and its `max` over everything, share it out). Saves one int64 per element of y, the
/// place of the winner. Throws `ShapeError` for an axis that is out of range or named twice, or for
/// no elements along the axes.
Tensor max(Tensor x, const Axes& axes = {}, ReduceOptions options = {},
           Where where = Where::current());

/// Throws `ShapeError` under `tag` where x has no element along the axes that `reduced`, the result
/// of `reduced_shape`, has reduced.
void require_elements(const Shape& x, const Shape& reduced, const char* tag);

namespace kernel {
/// in: x; out: y, index (int64), of which one may be absent; their shape has the rank of x and size
/// 1 along the axes that go. The index counts the elements along those axes, in row-major order.
/// x has elements along them. Contiguous.
inline constexpr Kernel<NoAttributes> max{"max"};
/// in: dy, index; out: dx, every element written. Contiguous.
inline constexpr Kernel<NoAttributes> max_backward{"max_backward"};
}  // namespace kernel

}  // namespace brim
