// A convolution that applies the batch norm of its input, and the activation after it, on the way:
// what the norm would write for the convolution to read again is there some rows at a time. For
// training on the CPU; for inference `fused_conv2d`, with the norm folded into the weight. See
// docs/batch_norm.md.
#pragma once

#include "brim/ops/batch_norm.h"
#include "brim/ops/conv2d.h"

namespace brim {

/// What `batch_norm` would be called with, after x; in training, by the statistics of the batch,
/// which are given, and without a residual.
struct BatchNormArguments {
  Tensor weight, bias, running_mean, running_var;
  BatchNormOptions options;
};

/// Does `normalized_conv2d` spare passes over memory with an x of this shape, dtype and device? On
/// the CPU, where brim's kernels convolve, depthwise or with windows of 1x1 or 3x3, and outside of
/// autocast. Of float64, which has no such kernels, the answer is that of float32: a network is
/// then made of the same ops in both, which is what float64 is for.
bool normalizes_on_the_way(const Tensor& x, const BatchNormArguments& norm, const Tensor& weight,
                           const Conv2dOptions& options = {});

/// `conv2d_with_statistics(batch_norm(x, ...), weight, bias, options)`: y, its statistics and what
/// becomes of the running ones to the bit, the gradients too, but for those that one kernel makes
/// at once (`kernel::normalized_conv2d_backward`): they are summed in another order.
///
/// On the CPU, with the statistics of the batch given and no residual, one op does it: it saves x,
/// the norm's weight, bias and statistics, and the weight. What was normalised is made again for
/// the weight's gradient: by that kernel some pixels at a time, else some images, where there are
/// enough of them. Where it does not normalise on the way, what was normalised is there as a whole
/// while it is read. Elsewhere, and under autocast, it is those two calls. Throws what they throw;
/// about dtypes and the bias under the tag normalized_conv2d.
Conv2dWithStatistics normalized_conv2d(Tensor x, BatchNormArguments norm, Tensor weight,
                                       Tensor bias, const Conv2dOptions& options = {},
                                       Where where = Where::current());

namespace kernel {

struct NormalizedConv2dAttributes {
  Conv2dOptions window;
  BatchNormAttributes norm;
};
/// in: x, the norm's weight, bias, mean and variance, weight, bias (may be absent); out: y, mean
/// and variance (biased) of its channels, float64 [K], or neither. Contiguous. On the CPU, of
/// float32, and of sizes that it has a way for (`normalizes_on_the_way`).
inline constexpr Kernel<NormalizedConv2dAttributes> normalized_conv2d{"normalized_conv2d"};
/// Backward. Bits do not depend on the number of threads. in: x, the norm's weight, bias, mean and
/// variance, dy, weight; out: dx, the gradients of the norm's weight and bias, dweight, of which
/// all but the first may be absent. Of sizes that it has a way for (ops/cpu/normalized_conv2d.h).
inline constexpr Kernel<NormalizedConv2dAttributes> normalized_conv2d_backward{
    "normalized_conv2d_backward"};

}  // namespace kernel

}  // namespace brim
