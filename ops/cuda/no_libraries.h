// What tests put in place of cuDNN where kernels are emulated, so that whole networks run there
// (tests/support/cuda_libraries.h). In other builds nobody defines it.
#pragma once

#include "brim/ops/cuda/convolution.h"

namespace brim::cuda {

using PlainConvolution = void (*)(const ConvolutionCall& call, const ConvolutionBuffers& buffers);

/// In float32 and without a bias; null, as at first: a convolution that wants the library throws.
void set_plain_convolution(PlainConvolution convolve);

}  // namespace brim::cuda
