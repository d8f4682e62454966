// The data gradient of a depthwise convolution, row by row of dx from the rows of dy over it.
#pragma once

#include <algorithm>

#include "brim/ops/cpu/depthwise_sweep.h"

namespace brim::cpu {

/// The data gradient under any stride: a sweep over x that reads dy.
template <class T>
class GradientSweep {
 public:
  /// `blocks` are the weights as `order` puts them.
  GradientSweep(const ConvShape& shape, const T* dy, const Compute<T>* blocks, T* dx)
      : shape_(shape), sweep_(sweep_of(shape, dy, blocks, dx)) {}

  /// The weights as the rows want them: for a stride of 1 turned by 180 degrees, since the gradient
  /// is the correlation with those.
  void order(const T* weight, Compute<T>* blocks) const {
    with_window<T>(shape_, [&](auto window) {
      reorder_weights(shape_, weight, is_correlation(window), blocks);
    });
  }

  void run() const {
    with_window<T>(shape_, [&](auto window) {
      sweep_.run(
          [&](const Plane<T>& in, int64_t y, const auto& sink) { row(window, in, y, sink); });
    });
  }

  /// Row y of an image of dx; `in` is that of dy.
  template <class Window, class Sink>
  void row(Window window, const Plane<T>& in, int64_t y, const Sink& sink) const {
    if constexpr (std::is_same_v<Window, AnyWindow>)
      pixels(in, rows_over(y), 0, shape_.w, sink);
    else if constexpr (is_correlation(Window()))
      sweep_.correlate_row(window, in, y, sink);
    else
      row_by_pairs<Window::kTaps>(in, y, sink);
  }

 private:
  const ConvShape& shape_;
  Sweep<T> sweep_;

  static constexpr bool is_correlation(AnyWindow) { return false; }
  template <int kTaps, int kStride>
  static constexpr bool is_correlation(Window<kTaps, kStride>) {
    return kStride == 1;
  }

  static Sweep<T> sweep_of(const ConvShape& shape, const T* dy, const Compute<T>* blocks, T* dx) {
    return {shape,   dy,
            blocks,  nullptr,
            dx,      shape.p,
            shape.q, shape.h,
            shape.w, {shape.r - 1 - shape.padding.h, shape.s - 1 - shape.padding.w}};
  }

  Meeting rows_over(int64_t y) const {
    return outputs_over(y, shape_.p, shape_.r, shape_.stride.h, shape_.padding.h,
                        shape_.dilation.h);
  }

  template <class Sink>
  void pixels(const Plane<T>& in, const Meeting& rows, int64_t begin, int64_t end,
              const Sink& sink) const {
    for (int64_t x = begin; x < end; ++x) {
      Meeting columns =
          outputs_over(x, shape_.q, shape_.s, shape_.stride.w, shape_.padding.w, shape_.dilation.w);
      one_pixel(in, rows, columns, shape_, sweep_.weight, sweep_.bias, x, sink);
    }
  }

  /// Pairs of columns 2q - padding and 2q - padding + 1 of x, for kWidth successive q: the first
  /// meets the even taps, t of them of output q - t / 2, the second the odd ones. `dy` is at q in
  /// the first of the rows that exist, and `pixel` the first of x.
  template <int kTaps, int kWidth, class Sink>
  void pairs(const Plane<T>& in, const T* dy, const Meeting& rows, int64_t pixel,
             const Sink& sink) const {
    constexpr int kBefore = kTaps / 2;  // outputs left of q
    int64_t channels = in.channels, row_step = rows.at_step * in.width * channels;
    for_channels<Compute<T>, Sink>(channels, [&]<class V>(int64_t c) {
      V sums[2 * kWidth] = {};
      for (int64_t i = 0; i < rows.count; ++i) {
        const T* row = opaque(dy + i * row_step - kBefore * channels + c);
        const Compute<T>* w =
            sweep_.weight + kTaps * kTaps * c + (rows.first + i * rows.step) * kTaps * kLanes<V>;
        V weights[kTaps];
#pragma GCC unroll 8
        for (int t = 0; t < kTaps; ++t) weights[t] = load<V>(w + t * kLanes<V>);
#pragma GCC unroll 16
        for (int j = 0; j < kWidth + kBefore; ++j) {
          const V here = load<V>(row + j * channels);
#pragma GCC unroll 8
          for (int t = 0; t < kTaps; ++t) {
            const int q = j - kBefore + t / 2;
            if (q < 0 || q >= kWidth) continue;
            V& sum = sums[2 * q + t % 2];
            sum = fma(weights[t], here, sum);
          }
        }
      }
      if constexpr (is_vector<V>)
        prefetch(dy + in.width * channels + c * kWidth, kWidth * kLanes<V>);
      sink(sums, pixel, c);
    });
  }

  /// Successive q, whose pairs are stored side by side: a processor joins the halves of a cache
  /// line on their way past the caches for few lines at a time.
  static constexpr int kMostPairs = kVectorBytes == 64 ? 4 : 2;

  /// Of a stride of 2.
  template <int kTaps, class Sink>
  void row_by_pairs(const Plane<T>& in, int64_t y, const Sink& sink) const {
    const int64_t padding = shape_.padding.w;
    // All outputs from q - kTaps / 2 on exist, and so do both columns.
    const int64_t first = std::max<int64_t>(kTaps / 2, (padding + 1) / 2);
    const int64_t end = std::max(first, std::min(shape_.q, (shape_.w + padding) / 2));
    const Meeting rows = rows_over(y);
    pixels(in, rows, 0, std::min(shape_.w, 2 * first - padding), sink);
    for_tiles<kMostPairs>(first, end, [&]<int kWidth>(int64_t q) {
      pairs<kTaps, kWidth>(in, in.at(rows.at, q), rows, 2 * q - padding, sink);
    });
    pixels(in, rows, std::min(shape_.w, 2 * end - padding), shape_.w, sink);
  }
};

}  // namespace brim::cpu
