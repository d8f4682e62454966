// Which convolutions apply the batch norm of their input on the way (ops/normalized_conv2d.h).
#pragma once

#include "brim/ops/conv_shape.h"

namespace brim::cpu {

/// In float32: depthwise ones of channels that fill vectors, those of 1x1 that are done as products
/// of pixels (ops/cpu/pointwise.h), and those of 3x3 that are done by Winograd's method
/// (ops/cpu/winograd.h), of channels that fill vectors.
bool normalizes_on_the_way(const ConvShape& shape);

// Of those, `kernel::normalized_conv2d_backward`:

/// Has it a way for them? For depthwise ones, and for those whose data gradient is done the
/// way that forward is.
bool has_normalized_backward(const ConvShape& shape);
/// Does it make the weight's gradient too? Of 1x1 where that is small (ops/cpu/narrow_weight.h), of
/// 3x3 where Winograd's method suits it and has filters so few that x is normalised once.
bool has_normalized_weight(const ConvShape& shape);

}  // namespace brim::cpu
