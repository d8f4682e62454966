// Depthwise convolution on a GPU: one filter per channel (groups = C = K), of any window, stride,
// padding and dilation. Bound by memory: square windows of 3 and 5 with stride 1 or 2 have fast
// paths that read each activation about once. With several filters per channel (K > C) it is a
// grouped convolution: see ops/cuda/conv2d.cc, which chooses. No size is 0. Each result is one sum
// in an order that follows from the shape alone.
#pragma once

#include "brim/core/launch.h"
#include "brim/ops/conv_shape.h"

namespace brim::cuda {

/// Bytes for `depthwise` and for `depthwise_backward_data`: the weights in the order in which they
/// are read.
template <class S>
int64_t depthwise_scratch(const ConvShape& shape);

/// y = conv2d(x, weight, bias); the bias may be absent. Of S, halves too; sums begin with the bias,
/// are in what S is computed in, and rounded once.
template <class S>
void depthwise(const KernelCall& call, const ConvShape& shape, const View& x, const View& weight,
               const View& bias, const View& y);
/// The data gradient, or with a bias `conv_transpose2d`.
template <class S>
void depthwise_backward_data(const KernelCall& call, const ConvShape& shape, const View& dy,
                             const View& weight, const View& bias, const View& dx);

/// Sums are in what S is computed in over at most 256 pixels; in double beyond.
template <class S>
int64_t depthwise_backward_weight_scratch(const ConvShape& shape);
template <class S>
void depthwise_backward_weight(const KernelCall& call, const ConvShape& shape, const View& x,
                               const View& dy, const View& dweight);

}  // namespace brim::cuda
