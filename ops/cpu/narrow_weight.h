// Weight gradient of 1x1 convolutions with few channels on one side, as those beside a depthwise
// convolution have: a small matrix, summed over very many pixels. A tile of it stays in registers
// while the pixels go by: vectors of the wide side, numbers of the narrow one. A library, which
// tiles for large matrices, reaches a third of the speed of memory here (bench/conv_bench.cc). A
// network's first convolution goes the same way: its windows of a few channels are copied, some
// pixels at a time, to be the narrow side.
#pragma once

#include "brim/ops/conv_shape.h"
#include "brim/ops/cpu/vector.h"

namespace brim::cpu {

/// S: float, double, or halves, whose gradient is in float32: with the processor's instructions for
/// bfloat16 where it has them.
template <class S>
bool has_narrow_weight(const ConvShape& shape);

/// Sums over 64 pixels, of halves 128, are in float or double as the gradient is, beyond in double.
/// Their order depends on the sizes alone.
template <class S>
int64_t narrow_backward_weight_scratch(const ConvShape& shape);
template <class S>
void narrow_backward_weight(const ConvShape& shape, const S* x, const S* dy, Compute<S>* dweight,
                            void* scratch);

/// Are the sums (ops/cpu/narrow_weight_sums.h) of a 1x1 window possible on any processor, with the
/// tiles of each? In float32; the answer is the same on all.
bool has_narrow_weight_everywhere(const ConvShape& shape);

}  // namespace brim::cpu
