// The loops of pooling over NHWC images: which inputs an output covers, which outputs cover an
// input, and the channels in vectors. Backward walks the inputs, each of which collects from its
// windows: no element is written twice, and nothing is cleared first. The sizes are those of
// ops/pool_window.h. Pooling of whole images needs no windows: global_avg_pool.cc.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/base/parallel.h"
#include "brim/core/shape.h"
#include "brim/ops/cpu/vector.h"
#include "brim/ops/pool_window.h"

namespace brim::cpu {

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

  int first() const {
    return static_cast<int>((rows.begin - top) * kernel_w + columns.begin - left);
  }
  int64_t size() const { return rows.size() * columns.size(); }
  /// Calls `body(tap, offset)`, row by row: the place in the window, the element of x.
  template <class Body>
  void for_each(const Body& body) const {
    for (int64_t h = rows.begin; h < rows.end; ++h)
      for (int64_t w = columns.begin; w < columns.end; ++w)
        body(static_cast<int>((h - top) * kernel_w + w - left),
             image + h * row_stride + w * column_stride);
  }
};

inline PoolTaps pool_taps(const PoolShape& shape, const PoolWindow& window, int64_t image,
                          int64_t out_h, int64_t out_w) {
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
  void for_each(const Body& body) const {
    for (int64_t h = rows.begin; h < rows.end; ++h)
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        int64_t window = h * out_w + w;
        body(static_cast<int>((at_h - h * stride.h) * kernel.w + at_w - w * stride.w),
             image + window * channels, window);
      }
  }
};

inline PoolCovers pool_covers(const PoolShape& shape, const PoolWindow& window, int64_t image,
                              int64_t h, int64_t w) {
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

/// Calls `body(n, h, w)` for all pixels of `images` of h x w, rows in parallel.
template <class Body>
void for_pixels(int64_t images, int64_t height, int64_t width, int64_t work, const Body& body) {
  int64_t grain = std::max<int64_t>(16384 / std::max<int64_t>(work * width, 1), 1);
  parallel_for(images * height, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t w = 0; w < width; ++w) body(row / height, row % height, w);
  });
}

/// Calls `body(taps, at)` for each output pixel, whose first element is `at`.
template <class Body>
void for_pool_outputs(const PoolShape& shape, const PoolWindow& window, const Body& body) {
  int64_t work = shape.channels * window.kernel.h * window.kernel.w;
  for_pixels(shape.images, shape.out_h, shape.out_w, work, [&](int64_t n, int64_t h, int64_t w) {
    body(pool_taps(shape, window, n, h, w),
         ((n * shape.out_h + h) * shape.out_w + w) * shape.channels);
  });
}

/// Calls `body(covers, at)` for each input pixel.
template <class Body>
void for_pool_inputs(const PoolShape& shape, const PoolWindow& window, const Body& body) {
  for_pixels(shape.images, shape.in_h, shape.in_w, shape.channels,
             [&](int64_t n, int64_t h, int64_t w) {
               body(pool_covers(shape, window, n, h, w),
                    ((n * shape.in_h + h) * shape.in_w + w) * shape.channels);
             });
}

/// Calls `body<V, count>(c)` for all channels: `count` vectors V from channel c stay in registers
/// while a window is walked over; the last few channels come as single numbers.
template <class T, class Body>
inline void for_channel_vectors(int64_t channels, const Body& body) {
  constexpr int kMany = 4, kStep = kLanes<Vector<T>>;
  int64_t c = 0;
  for (; c + kMany * kStep <= channels; c += kMany * kStep)
    body.template operator()<Vector<T>, kMany>(c);
  for (; c + kStep <= channels; c += kStep) body.template operator()<Vector<T>, 1>(c);
  for (; c < channels; ++c) body.template operator()<T, 1>(c);
}

}  // namespace brim::cpu
