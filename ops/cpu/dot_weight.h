// Weight gradient of convolutions in bfloat16 by the processor's dot products of pairs (AVX-512
// BF16): each multiplies two neighbours of one operand with two of the other and adds both to a sum
// in float32. The pair is a pixel of two images. So images are copied together in twos, some rows
// at a time, and then windows of any size and stride find their operands side by side (a pair of
// neighbouring pixels would have to be copied once for odd and once for even shifts). While some
// rows are multiplied the next ones are fetched, a few lines at a time: products hide the memory.
#pragma once

#include "brim/core/half.h"
#include "brim/ops/conv_shape.h"

namespace brim::cpu {

/// Does this processor have it, and is it faster than a library (bench/conv_bench.cc)? One group,
/// eight images or more, with 64 pixels of y or more and rows of at most 800, channels and outputs
/// that fill a vector, and no large windows that overlap but in small images; the scratch is, with
/// two threads, no larger than x, y and the weights in float32. Not where there are tiles (AMX),
/// which come with slow dot products.
bool has_dot_weight(const ConvShape& shape);

/// dweight in float32 [K,R,S,C]. Sums in float32 over at most 800 pixels of two images are added up
/// in an order that depends on the sizes alone. Subnormal numbers are taken as 0, and where dy is
/// infinite beside the border the gradient is NaN, as zeros are there.
int64_t dot_backward_weight_scratch(const ConvShape& shape);
void dot_backward_weight(const ConvShape& shape, const BFloat16* x, const BFloat16* dy,
                         float* dweight, void* scratch);

}  // namespace brim::cpu
