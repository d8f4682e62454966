// Average over whole images, the last pooling of most classifiers: PyTorch's `AdaptiveAvgPool2d(1)`
// and `flatten` in one, with a result that `linear` takes as it is. One pass over x with sums in
// double; `mean` over axes 1 and 2 is the same but for rounding. For windows use `avg_pool2d`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"

namespace brim {

/// y[n,c] = mean over h and w of x[n,h,w,c]; [N,H,W,C] -> [N,C]. Floating dtypes. Saves nothing.
/// Throws `ShapeError` when x has not four axes, or H or W is 0.
Tensor global_avg_pool(Tensor x, Where where = Where::current());

namespace kernel {
/// in: x; out: y. Contiguous.
inline constexpr Kernel<NoAttributes> global_avg_pool{.name = "global_avg_pool",
                                                      .by_rows = {.in = 0b1, .out = 0b1}};
/// in: dy; out: dx.
inline constexpr Kernel<NoAttributes> global_avg_pool_backward{.name = "global_avg_pool_backward",
                                                               .by_rows = {.in = 0b1, .out = 0b1}};
}  // namespace kernel

}  // namespace brim
