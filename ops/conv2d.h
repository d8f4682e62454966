// Two-dimensional convolution (cross-correlation, as every framework calls it), dense, grouped or
// depthwise. Activations are NHWC, weights KRSC (from PyTorch's [K,C,R,S] by `permute`
// {0, 2, 3, 1}). On the CPU brim's kernels do the depthwise ones, and in float32 windows of 1x1 and
// most of 3x3; oneDNN does the others in float32 and those in bfloat16 where the processor can, and
// brim's kernels again what it cannot (ops/cpu/conv2d.cc); on a GPU
// brim's kernels do the depthwise ones and cuDNN the rest (ops/cuda/conv2d.cc). Borders are zeros;
// for other values call `pad` first.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"
#include "brim/ops/pair.h"

namespace brim {

struct Conv2dOptions {
  Pair stride = 1;
  Pair padding = 0;  ///< zeros added on both sides
  Pair dilation = 1;
  int64_t groups = 1;
};

/// y[n,i,j,k] = bias[k] + sum over r,s,c of
///     x[n, i*stride - padding + r*dilation, j*stride - padding + s*dilation, g*C/groups + c]
///     * weight[k,r,s,c],   with g = k / (K/groups) and x zero outside.
///
/// x [N,H,W,C], weight [K,R,S,C/groups], bias [K] or undefined, one floating dtype; the result is
/// [N,P,Q,K] with P = (H + 2*padding - dilation*(R-1) - 1) / stride + 1, Q likewise from W and S.
/// Throws `ShapeError` for wrong ranks, channels or bias, groups that divide C or K unevenly, a
/// window larger than the padded input; `ValueError` for strides or dilations below 1, paddings
/// below 0; `DtypeError`, `DeviceError`. Saves x and weight, each only if the other's gradient is
/// wanted.
Tensor conv2d(Tensor x, Tensor weight, Tensor bias, const Conv2dOptions& options = {},
              Where where = Where::current());

/// The result of a convolution, and for a batch norm that follows mean and biased variance of each
/// of its channels over all pixels, float64 [K]. No gradient flows through these two: that of the
/// norm has their part in it. They are undefined where the norm takes them as well: on a GPU, of
/// halves, and under autocast.
struct Conv2dWithStatistics {
  Tensor y, mean, variance;
};
/// As `conv2d`. Of 1x1, most 3x3 and most depthwise convolutions in float32 the statistics are
/// gathered while y is in registers, which spares a sweep over it. An empty y has zeros.
Conv2dWithStatistics conv2d_with_statistics(Tensor x, Tensor weight, Tensor bias,
                                            const Conv2dOptions& options = {},
                                            Where where = Where::current());

/// The result's shape; throws what `conv2d` throws about shapes.
Shape conv2d_shape(const Shape& x, const Shape& weight, const Conv2dOptions& options = {});

namespace kernel {
/// in: x, weight, bias (may be absent); out: y. Contiguous.
inline constexpr Kernel<Conv2dOptions> conv2d{.name = "conv2d", .by_rows = {.in = 0b1, .out = 0b1}};
/// The same; out: y, mean, variance (biased) of its channels, float64 [K]. On the CPU, not of
/// halves.
inline constexpr Kernel<Conv2dOptions> conv2d_with_statistics{"conv2d_with_statistics"};
/// in: dy, weight; out: dx, every element written. Contiguous.
inline constexpr Kernel<Conv2dOptions> conv2d_backward_data{.name = "conv2d_backward_data",
                                                            .by_rows = {.in = 0b1, .out = 0b1}};
/// The same, added to what dx has: of one group, for a window of one pixel, without stride and
/// padding. On the CPU, not in float16.
inline constexpr Kernel<Conv2dOptions> conv2d_backward_data_add{
    .name = "conv2d_backward_data_add", .updates = true, .by_rows = {.in = 0b1, .out = 0b1}};
/// in: x, dy; out: dweight. Contiguous. On the CPU the sum of the gradients of slices of the batch
/// (conv_slices.h), one added to the other in their order.
inline constexpr Kernel<Conv2dOptions> conv2d_backward_weight{"conv2d_backward_weight"};
/// The same, added to what dweight has: for the slices after the first. On the CPU alone.
inline constexpr Kernel<Conv2dOptions> conv2d_backward_weight_add{"conv2d_backward_weight_add",
                                                                  /*updates=*/true};
/// in: x; out: the window under each pixel of y, [N,P,Q,R,S,C], zeros where it is outside (im2col).
/// Contiguous. On the CPU alone, not of halves.
inline constexpr Kernel<Conv2dOptions> conv2d_windows{"conv2d_windows"};
}  // namespace kernel

}  // namespace brim
