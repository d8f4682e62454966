// Weight gradient of convolutions in bfloat16 by the processor's matrix unit (ops/cpu/amx.h). What
// it multiplies are pairs along the sum, which here is over pixels: one pixel of two images. So
// images are copied together in twos, once, dy turned so that a row is an output; windows of any
// size and stride then find a tile of x wherever they look.
#pragma once

#include "brim/core/half.h"
#include "brim/ops/conv_shape.h"

namespace brim::cpu {

/// Does this processor have it? One group, and channels and outputs that fill a tile's row; the
/// scratch is no larger than x, y and the weights in float32.
bool has_amx_weight(const ConvShape& shape);

/// dweight in float32 [K,R,S,C]. Sums in float32 over some images (3 MiB of x and dy) are added up
/// in the order of images, whatever the number of threads. Subnormal numbers are taken as 0, and
/// where x or dy is not finite more of the gradient may be NaN than in a direct sum, as there are
/// zeros beside them.
int64_t amx_backward_weight_scratch(const ConvShape& shape);
void amx_backward_weight(const ConvShape& shape, const BFloat16* x, const BFloat16* dy,
                         float* dweight, void* scratch);

}  // namespace brim::cpu
