// The windows of a pooling op: sizes, what they cover, and the checks that all pooling ops share.
// Sizes of results are PyTorch's, `ceil_mode` included. This is what kernels get, with the stride
// filled in; callers give `MaxPool2dOptions` or `AvgPool2dOptions`. Windows of convolutions, which
// also have dilation and groups, are in ops/conv_shape.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/base/range.h"
#include "brim/core/shape.h"
#include "brim/ops/pair.h"

namespace brim {

struct PoolWindow {
  Pair kernel = 1, stride = 1, padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  ///< of averages
};

/// The stride where it is given; 0 stands for that of windows side by side.
constexpr Pair stride_or_kernel(const Pair& stride, const Pair& kernel) {
  return {stride.h == 0 ? kernel.h : stride.h, stride.w == 0 ? kernel.w : stride.w};
}

/// Throws `ValueError` or `ShapeError` under `tag` unless the window fits `x`, which is
/// [N,H,W,C]. Returns the shape of the pooled tensor.
Shape pooled_shape(const char* tag, const Shape& x, const PoolWindow& window);

/// Along one axis: the inputs that output `o` covers, of `size`.
constexpr Range covered_inputs(int64_t o, int64_t size, int64_t kernel, int64_t stride,
                               int64_t padding) {
  int64_t start = o * stride - padding;
  return {std::max<int64_t>(start, 0), std::min(start + kernel, size)};
}

/// Along one axis: the outputs, of `size`, whose windows cover input `i`.
constexpr Range covering_outputs(int64_t i, int64_t size, int64_t kernel, int64_t stride,
                                 int64_t padding) {
  int64_t at = i + padding;  // o covers i when o * stride <= at < o * stride + kernel
  int64_t first = at < kernel ? 0 : (at - kernel) / stride + 1;
  return {first, std::min(at / stride + 1, size)};
}

}  // namespace brim
