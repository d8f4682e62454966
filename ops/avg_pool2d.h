// Average over windows of an image batch in NHWC: PyTorch's `avg_pool2d` without `ceil_mode` and
// `divisor_override`. For the average of whole images, `global_avg_pool`; for the largest value,
// `max_pool2d`. Backward reads dy alone and writes each element of dx once, overlap or not.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"
#include "brim/ops/pair.h"
#include "brim/ops/pool_window.h"

namespace brim {

struct AvgPool2dOptions {
  Pair kernel;
  Pair stride = 0;                ///< 0: that of the kernel
  Pair padding = 0;               ///< zeros around the image; at most half of the kernel
  bool count_include_pad = true;  ///< divide by the whole window, padding included
};

/// y[n,i,j,c] = sum over the window of x[n,:,:,c] / count; [N,H,W,C] -> [N,H',W',C] with
/// H' = floor((H + 2 padding - kernel) / stride) + 1. Floating dtypes. Saves nothing.
///
/// Throws `ShapeError` when x has not four axes or is smaller than the window, `ValueError` for
/// sizes out of range.
Tensor avg_pool2d(Tensor x, AvgPool2dOptions options, Where where = Where::current());

namespace kernel {
/// in: x; out: y. Contiguous.
inline constexpr Kernel<PoolWindow> avg_pool2d{.name = "avg_pool2d",
                                               .by_rows = {.in = 0b1, .out = 0b1}};
/// in: dy; out: dx.
inline constexpr Kernel<PoolWindow> avg_pool2d_backward{.name = "avg_pool2d_backward",
                                                        .by_rows = {.in = 0b1, .out = 0b1}};
}  // namespace kernel

}  // namespace brim
