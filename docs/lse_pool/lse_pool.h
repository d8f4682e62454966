// Log-sum-exp pooling over whole images: a smooth maximum. Pinheiro and Collobert, "From
// Image-level to Pixel-level Labeling with Convolutional Networks", CVPR 2015.
//
// An op defined outside brim's tree, as an example: docs/adding_an_op.md explains it.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"

namespace example {

// [declaration]
struct LsePoolOptions {
  /// Towards 0 the result becomes the mean, towards infinity the maximum.
  double sharpness = 1;
};

/// y[n,c] = log(1/(H W) * sum over h,w of exp(r * x[n,h,w,c])) / r, with r the sharpness.
///
/// x [N,H,W,C] of a floating dtype; the result is [N,C]. Saves x and y. Throws `ShapeError` unless
/// x has four axes and at least one pixel, `ValueError` for a sharpness that is not above 0.
brim::Tensor lse_pool(brim::Tensor x, LsePoolOptions options = {},
                      brim::Where where = brim::Where::current());
// [/declaration]

// [kernels]
namespace kernel {
/// in: x; out: y. Contiguous.
inline constexpr brim::Kernel<LsePoolOptions> lse_pool{"example_lse_pool"};
/// in: dy, x, y; out: dx. Contiguous.
inline constexpr brim::Kernel<LsePoolOptions> lse_pool_backward{"example_lse_pool_backward"};
}  // namespace kernel

/// Enters the CPU's kernels into the table; returns true.
bool register_lse_pool();
// A program that includes this runs it before main.
inline const bool lse_pool_ready = register_lse_pool();
// [/kernels]

}  // namespace example
