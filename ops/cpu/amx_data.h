// Data gradient of convolutions in bfloat16 by the processor's matrix unit (ops/cpu/amx.h). A tile
// is 16 neighbouring pixels of 32 channels of dy. So dy is copied, some pixels at a time, to where
// a window at any of them finds its tiles, and the weights to tiles; a window of one pixel may find
// dy's where they lie. With a stride the pixels
// of dx that have the same remainder see dy through the same taps, and no others.
#pragma once

#include "brim/core/half.h"
#include "brim/ops/conv_shape.h"

namespace brim::cpu {

/// Does this processor have it? One group, and channels and outputs that fill a tile's row; with
/// two threads the scratch is no larger than x, y and the weights in float32.
bool has_amx_data(const ConvShape& shape);

/// dx [n,h,w,c] of dy and the weights; where it `adds`, dx += that, rounded before and after. Sums
/// are in float32 and in one order, whatever the number of threads, and rounded once. Subnormal
/// numbers are taken as 0, and where a weight is not finite more of dx may be NaN than in a direct
/// sum, as there are zeros around dy.
int64_t amx_backward_data_scratch(const ConvShape& shape);
void amx_backward_data(const ConvShape& shape, const BFloat16* dy, const BFloat16* weight,
                       bool adds, BFloat16* dx, void* scratch);

}  // namespace brim::cpu
