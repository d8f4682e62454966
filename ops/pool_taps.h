// Which inputs an output of a pooling op covers, and which outputs cover an input, over NHWC
// images. Backward walks the inputs, each of which collects from its windows: no element is written
// twice, and nothing is cleared first. For kernels; the sizes are those of ops/pool_window.h.
#pragma once

#include <cstdint>

#include "brim/base/host_device.h"
#include "brim/core/shape.h"
#include "brim/ops/pool_window.h"

namespace brim {

struct PoolShape {
  PoolShape(const Shape& x, const Shape& y)
      : images(x[0]), in_h(x[1]), in_w(x[2]), out_h(y[1]), out_w(y[2]), channels(x[3]) {}
  int64_t images, in_h, in_w, out_h, out_w, channels;
};

/// The inputs of one window that lie inside the image.
struct PoolTaps {
  Range rows, columns;                ///< of the input
  int64_t top, left;                  ///< where the window starts, perhaps in the padding
  int64_t kernel_w;                   ///< of the window
  int64_t row_stride, column_stride;  ///< elements of x
  int64_t image;                      ///< first element of x's image

  BRIM_HOST_DEVICE int first() const {
    return static_cast<int>((rows.begin - top) * kernel_w + columns.begin - left);
  }
  BRIM_HOST_DEVICE int64_t size() const { return rows.size() * columns.size(); }
  /// Calls `body(tap, offset)`, row by row: the place in the window, the element of x.
  template <class Body>
  BRIM_HOST_DEVICE void for_each(const Body& body) const {
    for (int64_t h = rows.begin; h < rows.end; ++h)
      for (int64_t w = columns.begin; w < columns.end; ++w)
        body(static_cast<int>((h - top) * kernel_w + w - left),
             image + h * row_stride + w * column_stride);
  }
};

BRIM_HOST_DEVICE inline PoolTaps pool_taps(const PoolShape& shape, const PoolWindow& window,
                                           int64_t image, int64_t out_h, int64_t out_w) {
  const auto& [kernel, stride, padding, ceil_mode, count_include_pad] = window;
  return {.rows = covered_inputs(out_h, shape.in_h, kernel.h, stride.h, padding.h),
          .columns = covered_inputs(out_w, shape.in_w, kernel.w, stride.w, padding.w),
          .top = out_h * stride.h - padding.h,
          .left = out_w * stride.w - padding.w,
          .kernel_w = kernel.w,
          .row_stride = shape.in_w * shape.channels,
          .column_stride = shape.channels,
          .image = image * shape.in_h * shape.in_w * shape.channels};
}

/// The windows that cover one input.
struct PoolCovers {
  Range rows, columns;  ///< of the output
  int64_t at_h, at_w;   ///< the input, counted from the start of the padding
  Pair kernel, stride;
  int64_t out_w, channels, image;

  /// Calls `body(tap, offset, window)`, row by row: the input's place in the window, the first
  /// element of the output's pixel, and its number in the image.
  template <class Body>
  BRIM_HOST_DEVICE void for_each(const Body& body) const {
    for (int64_t h = rows.begin; h < rows.end; ++h)
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        int64_t window = h * out_w + w;
        body(static_cast<int>((at_h - h * stride.h) * kernel.w + at_w - w * stride.w),
             image + window * channels, window);
      }
  }
};

BRIM_HOST_DEVICE inline PoolCovers pool_covers(const PoolShape& shape, const PoolWindow& window,
                                               int64_t image, int64_t h, int64_t w) {
  const auto& [kernel, stride, padding, ceil_mode, count_include_pad] = window;
  return {.rows = covering_outputs(h, shape.out_h, kernel.h, stride.h, padding.h),
          .columns = covering_outputs(w, shape.out_w, kernel.w, stride.w, padding.w),
          .at_h = h + padding.h,
          .at_w = w + padding.w,
          .kernel = kernel,
          .stride = stride,
          .out_w = shape.out_w,
          .channels = shape.channels,
          .image = image * shape.out_h * shape.out_w * shape.channels};
}

/// What the sum of a window is multiplied by, of which so many inputs are inside the image.
/// Windows of averages never leave the padding: no ceil_mode.
constexpr double average_share(const PoolWindow& window, int64_t inside) {
  const int64_t count = window.count_include_pad ? window.kernel.h * window.kernel.w : inside;
  return 1 / static_cast<double>(count);
}

/// Along one axis of `from` pixels pooled to `to`, adaptively: the inputs that output i covers.
/// With the sizes exchanged, the outputs that cover input i: floor(o from / to) <= i < ceil((o + 1)
/// from / to) holds for floor(i to / from) <= o < ceil((i + 1) to / from).
constexpr Range adaptive_window(int64_t i, int64_t from, int64_t to) {
  return {i * from / to, ((i + 1) * from + to - 1) / to};
}

/// `adaptive_window` of outputs i, i + 1, ... in turn, with divisions for the first alone.
class AdaptiveWalk {
 public:
  BRIM_HOST_DEVICE AdaptiveWalk(int64_t i, int64_t from, int64_t to)
      : whole_(from / to), rest_(from % to), to_(to), at_(i * from / to), over_(i * from % to) {}
  BRIM_HOST_DEVICE Range next() {
    const int64_t begin = at_;
    at_ += whole_;
    over_ += rest_;
    if (over_ >= to_) {
      over_ -= to_;
      ++at_;
    }
    return {begin, at_ + (over_ > 0 ? 1 : 0)};
  }

 private:
  int64_t whole_, rest_, to_;
  int64_t at_, over_;  // i * from is at_ * to_ + over_
};

}  // namespace brim
