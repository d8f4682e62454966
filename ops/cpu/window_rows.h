// The windows under pixels of a convolution with few channels, copied one behind the other: rows of
// [r][s][c], as the weights are. Then its weight gradient is that of a 1x1 convolution. The windows
// of few pixels with many channels are copied by their channels (few_pixels.cc), those of a product
// of any size as far as it asks for them (conv2d_generic.cc).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "brim/ops/conv_shape.h"
#include "brim/ops/cpu/depthwise_tiles.h"
#include "brim/ops/cpu/vector.h"

namespace brim::cpu {

template <class T>
class WindowRows {
 public:
  /// Rows of `width` elements, zeros beyond the window. One group, no dilation along a row.
  WindowRows(const ConvShape& shape, int64_t width)
      : z_(shape),
        width_(width),
        run_(shape.s * shape.c),
        inside_(shape.q, shape.w, shape.s, shape.stride.w, shape.padding.w) {}

  /// Of pixels [begin, begin + count) of y, over the batch, to `to` [count, width].
  void copy(const T* x, int64_t begin, int64_t count, T* to) const {
    for (const int64_t end = begin + count; begin < end;) {
      const int64_t q = begin % z_.q, row = begin / z_.q, length = std::min(end - begin, z_.q - q);
      const T* image = x + row / z_.p * z_.h * z_.w * z_.c;
      copy_pixels(image, row % z_.p, q, length, to);
      begin += length;
      to += length * width_;
    }
  }

 private:
  /// `length` pixels of row p of y, from pixel q on.
  void copy_pixels(const T* image, int64_t p, int64_t q, int64_t length, T* to) const {
    const int64_t first = std::clamp(inside_.begin - q, int64_t{0}, length);
    const int64_t last = std::clamp(inside_.end - q, first, length);
    const int64_t step = z_.stride.w * z_.c;
    for (int64_t r = 0; r < z_.r; ++r) {
      const int64_t y = p * z_.stride.h - z_.padding.h + r * z_.dilation.h;
      const int64_t left = q * z_.stride.w - z_.padding.w;
      T* taps = to + r * run_;
      if (y < 0 || y >= z_.h) {
        for (int64_t i = 0; i < length; ++i) std::fill_n(taps + i * width_, run_, T(0));
        continue;
      }
      const T* from = image + (y * z_.w + left) * z_.c;
      const auto at_border = [&](int64_t i) {
        copy_inside(from + i * step, left + i * z_.stride.w, taps + i * width_);
      };
      for (int64_t i = 0; i < first; ++i) at_border(i);
      copy_runs(from + first * step, step, last - first, taps + first * width_);
      for (int64_t i = last; i < length; ++i) at_border(i);
    }
    const int64_t window = z_.window(), beyond = width_ - window;
    if (beyond > 0)
      for (int64_t i = 0; i < length; ++i) std::fill_n(to + i * width_ + window, beyond, T(0));
  }

  /// A row of a window that is partly beside the image.
  void copy_inside(const T* from, int64_t left, T* to) const {
    const int64_t begin = std::clamp<int64_t>(-left, 0, z_.s) * z_.c;
    const int64_t end = std::clamp<int64_t>(z_.w - left, 0, z_.s) * z_.c;
    std::fill_n(to, run_, T(0));
    if (begin < end) std::copy(from + begin, from + end, to + begin);
  }

  /// Rows of windows that are inside, `step` elements from one to the next.
  void copy_runs(const T* from, int64_t step, int64_t count, T* to) const {
    using V = Vector<T>;
    constexpr int64_t kWidth = kLanes<V>;
    const int64_t run = run_, width = width_;
    if (run < kWidth || run > 2 * kWidth) {
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * width, from + i * step, static_cast<size_t>(run) * sizeof(T));
      return;
    }
    // Two vectors, which may share elements.
    for (int64_t i = 0; i < count; ++i, from += step, to += width) {
      const V first = load<V>(from), last = load<V>(from + run - kWidth);
      store(to, first);
      store(to + run - kWidth, last);
    }
  }

  const ConvShape& z_;
  int64_t width_, run_;
  Interior inside_;
};

}  // namespace brim::cpu
