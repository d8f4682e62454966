// Passes of a convolution as functions, for kernels that have one in them: the data gradient for
// `conv_transpose2d`, which is one with a bias, and forward for `fused_conv2d`. An op launches
// `kernel::conv2d` or `kernel::conv2d_backward_data` instead, which take the scratch from the
// account.
#pragma once

#include "brim/ops/conv_shape.h"

namespace brim::cpu {

// T: float or double.

/// Do brim's kernels do it, whatever a library has? Winograd's method (ops/cpu/winograd.h) and 1x1
/// products (ops/cpu/pointwise.h) are not meant: `fused_conv2d` leaves those to the library, which
/// packs their weights once. For the same reason a `conv2d`, whose weights change from call to
/// call, has brim's kernels for more pixels than this (`kFewPixelsOfOneCall`).
bool has_own_forward(const ConvShape& shape);
/// y by brim's kernels: the depthwise ones, those for few pixels, or matrix products.
template <class T>
int64_t own_conv2d_scratch(const ConvShape& shape);
/// `bias` may be null.
template <class T>
void own_conv2d(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y,
                void* scratch);

/// dx, by what does it fastest for these sizes: oneDNN or one of brim's kernels.
template <class T>
int64_t conv2d_backward_data_scratch(const ConvShape& shape);
template <class T>
void conv2d_backward_data(const ConvShape& shape, const T* dy, const T* weight, T* dx,
                          void* scratch);

}  // namespace brim::cpu
