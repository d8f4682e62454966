// The fast paths of depthwise convolution: square windows of 3 and 5, without dilation, of stride 1
// or 2. A thread has one channel of a strip of neighbouring outputs, whose windows overlap: it
// reads a stretch of inputs for all of them. The paths of any other window are in the .cu files
// that include this.
#pragma once

#include <cstdint>

#include "brim/ops/conv_shape.h"

namespace brim::cuda {

inline constexpr int kStrip = 4;  // outputs along a row

/// Inputs under a strip of outputs.
template <int kWindow, int kStride>
inline constexpr int kStretch = (kStrip - 1) * kStride + kWindow;

inline int64_t strips_of(int64_t width) { return (width + kStrip - 1) / kStrip; }

/// Fills `line` with the `kCount` pixels of a channel from column `first` of a row on; zero
/// outside.
template <int kCount, class T>
__device__ void load_line(const T* row, int64_t first, int64_t width, int64_t channels,
                          T (&line)[kCount]) {
  for (int i = 0; i < kCount; ++i) {
    const int64_t column = first + i;
    line[i] = column >= 0 && column < width ? row[column * channels] : T(0);
  }
}

/// Calls `fast<window, stride>()` where the shape has a fast path, else `other()`.
template <class Fast, class Other>
void choose_window(const ConvShape& shape, const Fast& fast, const Other& other) {
  const bool square = shape.r == shape.s && shape.stride.h == shape.stride.w;
  if (!square || shape.dilation != Pair(1)) return other();
  if (shape.r == 3 && shape.stride.h == 1) return fast.template operator()<3, 1>();
  if (shape.r == 3 && shape.stride.h == 2) return fast.template operator()<3, 2>();
  if (shape.r == 5 && shape.stride.h == 1) return fast.template operator()<5, 1>();
  if (shape.r == 5 && shape.stride.h == 2) return fast.template operator()<5, 2>();
  other();
}

}  // namespace brim::cuda
