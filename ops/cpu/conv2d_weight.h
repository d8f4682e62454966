// Weight gradient of convolutions with windows of several taps: strips of both operands are copied
// so that a tile of the gradient (4 outputs, 3 taps, one vector of channels) is summed in registers
// from memory in the first-level cache.
#pragma once

#include "brim/ops/conv_shape.h"

namespace brim::cpu {

/// Where it beats the matrix product and oneDNN (bench/conv_bench.cc): several taps, and channels
/// that fill a vector, but not many.
template <class T>
bool has_weight_tiles(const ConvShape& shape);

/// Sums over more than 256 pixels are in double. Their order depends on the sizes alone.
template <class T>
int64_t conv2d_tiled_backward_weight_scratch(const ConvShape& shape);
template <class T>
void conv2d_tiled_backward_weight(const ConvShape& shape, const T* x, const T* dy, T* dweight,
                                  void* scratch);

}  // namespace brim::cpu
