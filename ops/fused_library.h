// Which convolutions for inference oneDNN does, and which brim's own kernels: what the op asks that
// keeps packed weights, and the kernel.
#pragma once

#include "brim/ops/conv_shape.h"
#include "brim/ops/onednn.h"

namespace brim {

/// In float32; null where brim's own kernels do it.
onednn::PrimitivePtr fused_library(const ConvShape& shape, bool with_bias,
                                   const onednn::Epilogue& epilogue);

}  // namespace brim
