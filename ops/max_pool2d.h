// Maximum over windows of an image batch in NHWC: PyTorch's `max_pool2d` without dilation, and
// without the indices as a result. What backward needs is small and independent of the dtype, and
// is not written where no gradient is wanted. For averages use `avg_pool2d` or `global_avg_pool`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"
#include "brim/ops/pair.h"
#include "brim/ops/pool_window.h"

namespace brim {

struct MaxPool2dOptions {
  Pair kernel;             ///< at most 255 elements
  Pair stride = 0;         ///< 0: that of the kernel
  Pair padding = 0;        ///< at most half of the kernel; never wins
  bool ceil_mode = false;  ///< also windows that reach beyond the padding, if they start inside
};

/// y[n,i,j,c] = max over the window of x[n,:,:,c]; [N,H,W,C] -> [N,H',W',C] with
/// H' = floor((H + 2 padding - kernel) / stride) + 1 (ceil in ceil_mode). Floating dtypes. NaN
/// wins over everything; of equal values the first in row-major order gets the gradient.
///
/// Saves neither x nor y: one byte per output, the place of the winner in its window.
///
/// Throws `ShapeError` when x has not four axes or is smaller than the window, `ValueError` for
/// sizes out of range.
Tensor max_pool2d(Tensor x, MaxPool2dOptions options, Where where = Where::current());

namespace kernel {
/// in: x; out: y, index (uint8, r * kernel.w + s) or absent. Contiguous.
inline constexpr Kernel<PoolWindow> max_pool2d{.name = "max_pool2d",
                                               .by_rows = {.in = 0b1, .out = 0b11}};
/// in: dy, index; out: dx.
inline constexpr Kernel<PoolWindow> max_pool2d_backward{.name = "max_pool2d_backward",
                                                        .by_rows = {.in = 0b11, .out = 0b1}};
}  // namespace kernel

}  // namespace brim
