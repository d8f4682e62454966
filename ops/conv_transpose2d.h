// Transposed convolution: the data gradient of `conv2d` as an op of its own, which makes images
// larger by the stride (PyTorch's `conv_transpose2d`). Activations are NHWC. The weight is that of
// the convolution whose gradient it is: [in,R,S,out/groups], from PyTorch's [in,out/groups,R,S] by
// `permute` {0, 2, 3, 1}, as for `conv2d`. Runs on the kernels of `conv2d`. For upsampling without
// weights use `interpolate`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/pair.h"

namespace brim {

struct ConvTranspose2dOptions {
  Pair stride = 1;
  Pair padding = 0;         ///< cut off on both sides of the result
  Pair output_padding = 0;  ///< cut off less at the bottom and on the right; below the stride
  Pair dilation = 1;
  int64_t groups = 1;
};

/// y[n,p,q,k] = bias[k] + sum over all i,j,r,s with
///     p = i*stride - padding + r*dilation, q = j*stride - padding + s*dilation, and over c, of
///     x[n,i,j,g*in/groups + c] * weight[g*in/groups + c,r,s,k - g*out/groups],
///   with g = k / (out/groups).
///
/// x [N,H,W,in], weight [in,R,S,out/groups], bias [out] or undefined, one floating dtype; the
/// result is [N,P,Q,out] with P = (H-1)*stride - 2*padding + dilation*(R-1) + output_padding + 1, Q
/// likewise from W and S: the largest size that `conv2d` with these options takes to H is that with
/// an output_padding of stride - 1. (PyTorch also has an output_padding between stride and
/// dilation.) Throws `ShapeError` for wrong ranks, channels or bias, groups that divide the input
/// channels unevenly, a result without pixels; `ValueError` for options out of range; `DtypeError`,
/// `DeviceError`. Saves x and weight, each only if the other's gradient is wanted.
Tensor conv_transpose2d(Tensor x, Tensor weight, Tensor bias,
                        const ConvTranspose2dOptions& options = {}, Where where = Where::current());

/// The result's shape; throws what `conv_transpose2d` throws about shapes and options.
Shape conv_transpose2d_shape(const Shape& x, const Shape& weight,
                             const ConvTranspose2dOptions& options = {});

namespace kernel {
/// in: x, weight, bias (may be absent); out: y. The attributes are those of the convolution from y
/// to x. Contiguous. Its gradients are the kernels `conv2d` and `conv2d_backward_weight`.
inline constexpr Kernel<Conv2dOptions> conv_transpose2d{.name = "conv_transpose2d",
                                                        .by_rows = {.in = 0b1, .out = 0b1}};
}  // namespace kernel

}  // namespace brim
