// Which pixels of an image are under the windows of a 1x1 convolution: all of them, or with a
// stride those of a grid.
#pragma once

#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/ops/conv_shape.h"

namespace brim::cpu::pointwise {

class Pixels {
 public:
  /// Side by side.
  Pixels() = default;
  static Pixels under_windows(const ConvShape& shape) {
    Pixels pixels;
    if (shape.stride == Pair(1)) return pixels;
    pixels.shape_ = {shape.n, shape.h, shape.w, shape.p, shape.q};
    pixels.stride_ = shape.stride;
    return pixels;
  }

  bool is_dense() const { return shape_.n == 0; }

  /// Where pixel i of a convolution's result is in the image.
  int64_t index(int64_t i) const {
    if (is_dense()) return i;
    const int64_t column = i % shape_.q, line = i / shape_.q;
    return (line / shape_.p * shape_.h + line % shape_.p * stride_.h) * shape_.w +
           column * stride_.w;
  }

  /// Copies those from number `begin` together, each of `channels`.
  void gather(const float* image, int64_t channels, int64_t begin, int64_t count, float* to) const {
    for (int64_t i = begin; i < begin + count; ++i, to += channels)
      std::copy_n(image + index(i) * channels, channels, to);
  }

  /// Zeros to all others.
  void clear_others(float* image, int64_t channels) const {
    if (is_dense()) return;
    parallel_for(shape_.n * shape_.h, 1, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        float* at = image + line * shape_.w * channels;
        const int64_t row = line % shape_.h;
        const bool has = row % stride_.h == 0 && row / stride_.h < shape_.p;
        for (int64_t j = 0; j < shape_.w; ++j, at += channels)
          if (!has || j % stride_.w != 0 || j / stride_.w >= shape_.q)
            std::fill_n(at, channels, 0.0f);
      }
    });
  }

 private:
  struct {
    int64_t n = 0, h = 0, w = 0, p = 0, q = 0;
  } shape_;
  Pair stride_ = 1;
};

}  // namespace brim::cpu::pointwise
