// Averages over as many windows as the result has pixels, whatever the size of the images:
// PyTorch's `adaptive_avg_pool2d`, in NHWC. Where the sizes do not divide, windows overlap by a
// pixel and differ in size. To a single pixel, it is `global_avg_pool` with the axes kept; for
// windows of a given size use `avg_pool2d`, to resize images `interpolate`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"
#include "brim/ops/pair.h"

namespace brim {

/// y[n,i,j,c] = mean of x[n,h,w,c] over h in [floor(i H / P), ceil((i + 1) H / P)) and w likewise;
/// [N,H,W,C] -> [N,P,Q,C] with [P,Q] = `output`. Floating dtypes. Sums are in double. Saves
/// nothing. Throws `ShapeError` when x has not four axes, or H or W is 0, `ValueError` for an
/// output size below 1.
Tensor adaptive_avg_pool2d(Tensor x, Pair output, Where where = Where::current());

namespace kernel {
/// in: x; out: y. Contiguous.
inline constexpr Kernel<NoAttributes> adaptive_avg_pool2d{.name = "adaptive_avg_pool2d",
                                                          .by_rows = {.in = 0b1, .out = 0b1}};
/// in: dy; out: dx. Contiguous.
inline constexpr Kernel<NoAttributes> adaptive_avg_pool2d_backward{
    .name = "adaptive_avg_pool2d_backward", .by_rows = {.in = 0b1, .out = 0b1}};
}  // namespace kernel

}  // namespace brim
