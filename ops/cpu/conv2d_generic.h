// Convolution as matrix products over windows that are read where they lie (implicit im2col).
// For every shape and for both precisions; the path where no library implementation is accepted,
// and the reference for the others.
#pragma once

#include "brim/ops/conv_shape.h"

namespace brim::cpu {

template <class T>
int64_t conv2d_generic_scratch(const ConvShape& shape);
template <class T>
void conv2d_generic(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y,
                    void* scratch);

template <class T>
int64_t conv2d_generic_backward_data_scratch(const ConvShape& shape);
template <class T>
void conv2d_generic_backward_data(const ConvShape& shape, const T* dy, const T* weight, T* dx,
                                  void* scratch);

/// Sums over more than 256 pixels are in double.
template <class T>
int64_t conv2d_generic_backward_weight_scratch(const ConvShape& shape);
template <class T>
void conv2d_generic_backward_weight(const ConvShape& shape, const T* x, const T* dy, T* dweight,
                                    void* scratch);

}  // namespace brim::cpu
