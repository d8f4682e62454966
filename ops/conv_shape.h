// The sizes of one convolution, as kernels of every device want them: by the letters of cuDNN and
// CUTLASS. In a backward kernel dx and dy give the shapes of x and y. Nothing is checked here; to
// check sizes and to infer y use `conv2d_shape`.
#pragma once

#include "brim/core/shape.h"
#include "brim/ops/conv2d.h"

namespace brim {

/// What a convolution computes: y, or the gradient of x, or that of the weights.
enum class ConvPass { forward, backward_data, backward_weight };

/// x [n,h,w,c], weight [k,r,s,c/groups], y [n,p,q,k].
struct ConvShape {
  int64_t n = 0, h = 0, w = 0, c = 0;
  int64_t k = 0, r = 0, s = 0;
  int64_t p = 0, q = 0;
  Pair stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;

  ConvShape(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& options)
      : n(x[0]),
        h(x[1]),
        w(x[2]),
        c(x[3]),
        k(weight[0]),
        r(weight[1]),
        s(weight[2]),
        p(y[1]),
        q(y[2]),
        stride(options.stride),
        padding(options.padding),
        dilation(options.dilation),
        groups(options.groups) {}

  int64_t group_channels() const { return c / groups; }
  int64_t group_outputs() const { return k / groups; }
  int64_t pixels() const { return n * p * q; }           ///< of y, over the batch
  int64_t window() const { return r * s * c / groups; }  ///< terms of one output
  /// One filter per channel.
  bool is_depthwise() const { return groups == c && k == c; }
  /// The window under a pixel of y is that pixel of x.
  bool is_pointwise() const { return r == 1 && s == 1 && stride == Pair(1) && padding == Pair(0); }
};

/// Of a convolution with this result, or of one of its gradients: two per multiply and add.
inline double convolution_flops(const Shape& y, const Shape& weight) {
  return 2 * static_cast<double>(numel(y)) * static_cast<double>(weight[1] * weight[2] * weight[3]);
}

}  // namespace brim
