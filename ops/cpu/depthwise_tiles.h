// What the depthwise kernels share: which taps meet what, the order of the weights, and loops over
// tiles of pixels and vectors of channels.
//
// All loops run over pixels outside and channels inside, so that memory is read in order. A tile
// is a few neighbouring pixels of a row: the weights of a row stay in registers while the inputs
// under all of them pass by.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/ops/conv_shape.h"
#include "brim/ops/cpu/vector.h"

namespace brim::cpu {

constexpr int kTilePixels = 4;
constexpr int64_t kDepthwiseGrain = 16384;  // activations that repay a second thread

/// The taps of a window that meet something, along one axis: tap first + i * step meets position
/// at + i * at_step, for i < count.
struct Meeting {
  int64_t count = 0, first = 0, step = 1, at = 0, at_step = 0;

  void add(int64_t tap, int64_t position) {
    if (count == 0) {
      first = tap;
      at = position;
    } else if (count == 1) {
      step = tap - first;
      at_step = position - at;
    }
    ++count;
  }
};

/// Inputs, of `size`, under output `o`.
inline Meeting inputs_under(int64_t o, int64_t size, int64_t taps, int64_t stride, int64_t padding,
                            int64_t dilation) {
  Meeting meeting;
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t position = o * stride - padding + tap * dilation;
    if (position >= 0 && position < size) meeting.add(tap, position);
  }
  return meeting;
}

/// Outputs, of `size`, over input `i`.
inline Meeting outputs_over(int64_t i, int64_t size, int64_t taps, int64_t stride, int64_t padding,
                            int64_t dilation) {
  Meeting meeting;
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t position = i + padding - tap * dilation;
    if (position >= 0 && position % stride == 0 && position / stride < size)
      meeting.add(tap, position / stride);
  }
  return meeting;
}

/// Outputs [begin, end) of an axis whose inputs, one for each tap, all exist.
struct Interior {
  int64_t begin, end;
  explicit Interior(int64_t outputs) : begin(0), end(outputs) {}
  Interior(int64_t outputs, int64_t inputs, int64_t taps, int64_t stride, int64_t padding) {
    begin = std::clamp<int64_t>((padding + stride - 1) / stride, 0, outputs);
    int64_t last = inputs - taps + padding;  // the largest o * stride
    end = last < 0 ? begin : std::clamp(last / stride + 1, begin, outputs);
  }
};

/// The size of a window that has fast paths, and its stride: as a type to choose templates by.
template <int taps, int stride>
struct Window {
  static constexpr int kTaps = taps, kStride = stride;
};

/// One that has none.
struct AnyWindow {};

/// `body(Window<...>())` where the window is 3x3 or 5x5 and dense, with one stride of 1 or 2;
/// otherwise, and always in float64, which nobody waits for, `body(AnyWindow())`.
template <class T, class Body>
void with_window(const ConvShape& shape, const Body& body) {
  if constexpr (dtype_of<T> != Dtype::float64) {
    const bool is_square = shape.r == shape.s && shape.stride.h == shape.stride.w;
    if (is_square && shape.dilation == Pair(1) && shape.stride.h <= 2) {
      const bool by_one = shape.stride.h == 1;
      if (shape.r == 3) return by_one ? body(Window<3, 1>()) : body(Window<3, 2>());
      if (shape.r == 5) return by_one ? body(Window<5, 1>()) : body(Window<5, 2>());
    }
  }
  body(AnyWindow());
}

/// Weights [C,R,S] are reordered into blocks of as many channels as a vector has lanes: tap t of
/// channel c, in the block from channel `begin` on, is at taps * begin + t * lanes + c - begin.
/// Channels that fill no vector are a block of half as many, and blocks of one. So all taps of a
/// block lie at fixed offsets.
template <class T>
struct ChannelBlock {
  int64_t begin, lanes;
  ChannelBlock(int64_t c, int64_t channels) : begin(c), lanes(1) {
    constexpr int64_t kWidth = kLanes<Vector<T>>, kHalf = kLanes<HalfVector<T>>;
    const int64_t rest = channels / kWidth * kWidth;
    if (c < rest) {
      begin = c / kWidth * kWidth;
      lanes = kWidth;
    } else if (channels - rest >= kHalf && c < rest + kHalf) {
      begin = rest;
      lanes = kHalf;
    }
  }
  int64_t at(int64_t c, int64_t tap, int64_t taps) const {
    return taps * begin + tap * lanes + c - begin;
  }
};

/// Runs `tile.operator()<kWidth>(q)` for all q of [begin, end): kMax at a time, then the rest in
/// halves of that.
template <int kMax, class Tile>
inline void for_tiles(int64_t begin, int64_t end, const Tile& tile) {
  for (; begin + kMax <= end; begin += kMax) tile.template operator()<kMax>(begin);
  if constexpr (kMax > 1) for_tiles<kMax / 2>(begin, end, tile);
}

/// Is `position`, which a tap sees at stride kStride, that of one of kWidth outputs?
template <int kStride, int kWidth>
constexpr bool meets(int position) {
  return position >= 0 && position % kStride == 0 && position / kStride < kWidth;
}

/// An image [height][width][channels], or some of its rows.
template <class T>
struct Plane {
  const T* data;
  int64_t width, channels;
  int64_t first_row = 0;         ///< that of `data`
  bool has_margins = false;      ///< zeros beside each row, as far as windows reach
  const T* in_memory = nullptr;  ///< where `data` was made from, if not null
  int64_t memory_width = 0;

  const T* at(int64_t row, int64_t column) const {
    return data + ((row - first_row) * width + column) * channels;
  }
  /// What memory has there, or will have for rows beyond: to be fetched ahead.
  const T* source(int64_t row, int64_t column) const {
    if (in_memory == nullptr) return at(row, column);
    return in_memory + ((row - first_row) * memory_width + column) * channels;
  }
  /// Elements there from a row to the next.
  int64_t source_row() const { return (in_memory == nullptr ? width : memory_width) * channels; }
};

}  // namespace brim::cpu
