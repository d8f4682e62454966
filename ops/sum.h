// Sums over axes; for averages use `mean`, which has the same options. One pass over x, cut by the
// shape alone, so the result is the same with any number of threads. Backward repeats dy into a
// tensor of x's size. The kernel also takes a factor, for ops/broadcast.h.
#pragma once

#include <vector>

#include "brim/autograd/scope.h"
#include "brim/core/axes.h"
#include "brim/core/launch.h"

namespace brim {

/// y = the sum of x over `axes`, in any order; they count from the end when negative, and none
/// means all. Floating dtypes; the sum over nothing is 0. float32 accumulates in blocks whose
/// sums are added in double. Saves nothing.
/// Throws `ShapeError` for an axis that is out of range or named twice.
Tensor sum(Tensor x, const Axes& axes = {}, ReduceOptions options = {},
           Where where = Where::current());

/// The shape of x with size 1 along `axes` (all when empty); throws `ShapeError` under `tag`.
Shape reduced_shape(const Shape& x, const std::vector<int>& axes, const char* tag);
/// The same without those axes.
Shape squeezed_shape(const Shape& x, const std::vector<int>& axes, const char* tag);

namespace kernel {
struct SumAttributes {
  double scale = 1;
};
/// y = scale * sum(x), or scale * sum(x * factor). in: x and, optionally, a factor of the same
/// shape; out: y, whose shape has the rank of x and size 1 along the axes to sum over. Contiguous.
inline constexpr Kernel<SumAttributes> sum{"sum"};
/// dx = scale * dy. in: dy with the rank of dx, repeated along its axes of size 1; out: dx.
/// Contiguous.
inline constexpr Kernel<SumAttributes> sum_backward{"sum_backward"};
}  // namespace kernel

}  // namespace brim
