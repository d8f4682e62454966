// The data gradient of a convolution as a function, for the kernel of `conv_transpose2d`, which is
// one with a bias. It chooses among oneDNN, the depthwise kernels and matrix products by the sizes.
// An op launches `kernel::conv2d_backward_data` instead, which takes the scratch from the account.
#pragma once

#include "brim/ops/conv_shape.h"

namespace brim::cpu {

/// T: float or double.
template <class T>
int64_t conv2d_backward_data_scratch(const ConvShape& shape);
template <class T>
void conv2d_backward_data(const ConvShape& shape, const T* dy, const T* weight, T* dx,
                          void* scratch);

}  // namespace brim::cpu
