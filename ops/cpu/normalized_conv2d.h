// Which convolutions apply the batch norm of their input on the way (ops/normalized_conv2d.h).
#pragma once

#include "brim/ops/conv_shape.h"

namespace brim::cpu {

/// In float32: depthwise ones of channels that fill vectors, and those of 1x1 that are done as
/// products of pixels (ops/cpu/pointwise.h).
bool normalizes_on_the_way(const ConvShape& shape);

}  // namespace brim::cpu
