// Weight gradient of 1x1 convolutions with few channels on one side, as those beside a depthwise
// convolution have: a small matrix, summed over very many pixels. A tile of it stays in registers
// while the pixels go by: vectors of the wide side, numbers of the narrow one. A library, which
// tiles for large matrices, reaches a third of the speed of memory here (bench/conv_bench.cc).
#pragma once

#include "brim/ops/conv_shape.h"

namespace brim::cpu {

/// T: float or double.
template <class T>
bool has_narrow_weight(const ConvShape& shape);

/// Sums over 64 pixels are in T, beyond in double. Their order depends on the sizes alone.
template <class T>
int64_t narrow_backward_weight_scratch(const ConvShape& shape);
template <class T>
void narrow_backward_weight(const ConvShape& shape, const T* x, const T* dy, T* dweight,
                            void* scratch);

}  // namespace brim::cpu
