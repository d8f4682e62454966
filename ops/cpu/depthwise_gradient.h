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
    with_window<T>(
        shape_,
        [&]<class Window>(Window) {
          reorder_weights(shape_, weight, Window::kStride == 1, blocks);
        },
        [&] { reorder_weights(shape_, weight, false, blocks); });
  }

  void run() const {
    const bool streaming = sweep_.streams();
    with_window<T>(
        shape_,
        [&](auto window) {
          sweep_.run([&](const Plane<T>& in, int64_t y, T* out, const auto&) {
            row(window, in, y, out, streaming);
          });
        },
        [&] {
          sweep_.run([&](const Plane<T>& in, int64_t y, T* out, const auto&) { row(in, y, out); });
        });
  }

  /// Row y of an image of dx, to `out`; `in` is that of dy.
  template <class Window>
  void row(Window window, const Plane<T>& in, int64_t y, T* out, bool streaming) const {
    if constexpr (Window::kStride == 1)
      sweep_.correlate_row(window, in, y, out, streaming, NoStatistics());
    else
      row_by_pairs<Window::kTaps>(in, y, out, streaming);
  }
  /// The same under any window.
  void row(const Plane<T>& in, int64_t y, T* out) const {
    pixels(in, rows_over(y), 0, shape_.w, out);
  }

 private:
  const ConvShape& shape_;
  Sweep<T> sweep_;

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

  void pixels(const Plane<T>& in, const Meeting& rows, int64_t begin, int64_t end, T* out) const {
    for (int64_t x = begin; x < end; ++x) {
      Meeting columns =
          outputs_over(x, shape_.q, shape_.s, shape_.stride.w, shape_.padding.w, shape_.dilation.w);
      one_pixel(in, rows, columns, shape_, sweep_.weight, sweep_.bias, out + x * shape_.c);
    }
  }

  /// Pairs of columns 2q - padding and 2q - padding + 1 of x, for kWidth successive q: the first
  /// meets the even taps, t of them of output q - t / 2, the second the odd ones. `dy` is at q in
  /// the first of the rows that exist.
  template <int kTaps, int kWidth>
  void pairs(const Plane<T>& in, const T* dy, const Meeting& rows, T* to, bool streaming) const {
    constexpr int kBefore = kTaps / 2;  // outputs left of q
    int64_t channels = in.channels, row_step = rows.at_step * in.width * channels;
    for_lanes_and_halves<Compute<T>>(channels, [&]<class V>(int64_t c) {
      V even[kWidth] = {}, odd[kWidth] = {};
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
            V& sum = t % 2 == 0 ? even[q] : odd[q];
            sum = fma(weights[t], here, sum);
          }
        }
      }
      if constexpr (is_vector<V>)
        prefetch(dy + in.width * channels + c * kWidth, kWidth * kLanes<V>);
      T* out = opaque(to + c);
#pragma GCC unroll 16
      for (int j = 0; j < kWidth; ++j) {
        if (streaming && is_vector<V>) {
          stream(out + 2 * j * channels, even[j]);
          stream(out + (2 * j + 1) * channels, odd[j]);
        } else {
          store(out + 2 * j * channels, even[j]);
          store(out + (2 * j + 1) * channels, odd[j]);
        }
      }
    });
  }

  /// Successive q, whose pairs are stored side by side: a processor joins the halves of a cache
  /// line on their way past the caches for few lines at a time.
  static constexpr int kMostPairs = kVectorBytes == 64 ? 4 : 2;

  /// Of a stride of 2.
  template <int kTaps>
  void row_by_pairs(const Plane<T>& in, int64_t y, T* out, bool streaming) const {
    const int64_t padding = shape_.padding.w;
    // All outputs from q - kTaps / 2 on exist, and so do both columns.
    const int64_t first = std::max<int64_t>(kTaps / 2, (padding + 1) / 2);
    const int64_t end = std::max(first, std::min(shape_.q, (shape_.w + padding) / 2));
    const Meeting rows = rows_over(y);
    pixels(in, rows, 0, std::min(shape_.w, 2 * first - padding), out);
    for_tiles<kMostPairs>(first, end, [&]<int kWidth>(int64_t q) {
      T* tile = out + (2 * q - padding) * shape_.c;
      pairs<kTaps, kWidth>(in, in.at(rows.at, q), rows, tile, streaming);
    });
    pixels(in, rows, std::min(shape_.w, 2 * end - padding), shape_.w, out);
  }
};

}  // namespace brim::cpu
