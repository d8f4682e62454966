// The fast paths of depthwise convolution: square windows of 3 and 5, without dilation, of stride 1
// or 2. A thread has a strip of neighbouring outputs, whose windows overlap: it reads a stretch of
// inputs for all of them. The paths of any other window are in the .cu files that include this. On
// either path a thread has one channel, or a pack of neighbouring ones.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/core/cuda/vector.cuh"
#include "brim/ops/conv_shape.h"

// Before a loop over an array that is to stay in registers.
#ifdef __CUDACC__
#define BRIM_UNROLL _Pragma("unroll")
#else
#define BRIM_UNROLL
#endif

namespace brim::cuda {

/// One channel where there might be a `Pack` of them.
template <class S>
struct Single {
  using Element = S;
  static constexpr int kCount = 1;
  S of[kCount];

  /// Of null: zero.
  __device__ static Single load(const S* from) {
    return from == nullptr ? Single{} : Single{{*from}};
  }
  __device__ void store(S* to) const { *to = of[0]; }
};

/// Outputs along a row that a thread has, of channels P: as many as registers hold.
template <class P>
inline constexpr int kStrip = P::kCount > 4 ? 2 : 4;

/// Inputs under a strip of outputs.
template <class P, int kWindow, int kStride>
inline constexpr int kStretch = (kStrip<P> - 1) * kStride + kWindow;

template <class P>
__host__ __device__ int64_t strips_of(int64_t width) {
  return (width + kStrip<P> - 1) / kStrip<P>;
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

/// Calls `body<Pack<S>>()` where packs fill the channels of these images, else `body<Single<S>>()`,
/// which has the same results.
template <class S, class Body>
void choose_channels(int64_t channels, std::initializer_list<const S*> images, const Body& body) {
  const bool fits = channels % Pack<S>::kCount == 0;
  if (fits && std::ranges::all_of(images, is_aligned))
    body.template operator()<Pack<S>>();
  else
    body.template operator()<Single<S>>();
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
