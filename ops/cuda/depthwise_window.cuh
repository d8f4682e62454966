// The fast paths of depthwise convolution: square windows of 3 and 5, without dilation, of stride 1
// or 2. A thread has a strip of neighbouring outputs, whose windows overlap: it reads a stretch of
// inputs for all of them. The paths of any other window are in the .cu files that include this. On
// either path a thread has one channel, or a pack of neighbouring ones.
#pragma once

#include <cstdint>

#include "brim/ops/conv_shape.h"
#include "brim/ops/cuda/channels.cuh"

namespace brim::cuda {

/// Outputs along a row that a thread has, of channels P: as many as registers hold.
template <class P>
constexpr int outputs_of_strip(int window, int stride) {
  if (P::kCount == 1) return 4;
  if (window == 3) return P::kCount > 4 ? 2 : 4;
  if (P::kCount > 4) return 1;
  return stride == 1 ? 4 : 2;
}
template <class P, int kWindow = 3, int kStride = 1>
inline constexpr int kStrip = outputs_of_strip<P>(kWindow, kStride);

/// Inputs under a strip of outputs.
template <class P, int kWindow, int kStride>
inline constexpr int kStretch = (kStrip<P, kWindow, kStride> - 1) * kStride + kWindow;

template <class P, int kWindow = 3, int kStride = 1>
__host__ __device__ int64_t strips_of(int64_t width) {
  constexpr int64_t kOutputs = kStrip<P, kWindow, kStride>;
  return (width + kOutputs - 1) / kOutputs;
}

/// Fills `line` with the `kCount` pixels of some channels from column `first` of a row on; zero
/// outside.
template <int kCount, class P>
__device__ void load_line(const typename P::Element* row, int64_t first, int64_t width,
                          int64_t channels, P (&line)[kCount]) {
  BRIM_UNROLL
  for (int i = 0; i < kCount; ++i) {
    const int64_t column = first + i;
    line[i] = P::load(column >= 0 && column < width ? row + column * channels : nullptr);
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
