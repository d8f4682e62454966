// The weight gradient of a depthwise convolution, row by row of dy: what a thread sums, and how
// sums become weights.
#pragma once

#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/ops/cpu/depthwise_tiles.h"

namespace brim::cpu::weight_sweep {

template <class T>
void one_pixel(const Plane<T>& x, const Meeting& rows, const Meeting& columns,
               const ConvShape& shape, const T* dy, Compute<T>* sums) {
  for_lanes_and_halves<Compute<T>>(shape.c, [&]<class V>(int64_t c) {
    V gradient = load<V>(dy + c);
    for (int64_t i = 0; i < rows.count; ++i)
      for (int64_t j = 0; j < columns.count; ++j) {
        int64_t tap = (rows.first + i * rows.step) * shape.s + columns.first + j * columns.step;
        Compute<T>* sum = sums + shape.r * shape.s * c + tap * kLanes<V>;
        V in = load<V>(x.at(rows.at + i * rows.at_step, columns.at + j * columns.at_step) + c);
        store(sum, fma(gradient, in, load<V>(sum)));
      }
  });
}

/// Adds kWidth pixels to one row of a window's sums.
template <class Window, int kWidth, class V, class T>
inline void add_row(const T* x, int64_t channels, const V (&gradient)[kWidth], Compute<T>* sums) {
  constexpr int kTaps = Window::kTaps, kStride = Window::kStride;
  V sum[kTaps];
#pragma GCC unroll 8
  for (int s = 0; s < kTaps; ++s) sum[s] = load<V>(sums + s * kLanes<V>);
#pragma GCC unroll 24
  for (int j = 0; j < kStride * (kWidth - 1) + kTaps; ++j) {
    // Input j meets tap s of output (j - s) / kStride.
    V in = load<V>(x + j * channels);
#pragma GCC unroll 8
    for (int s = 0; s < kTaps; ++s)
      if (meets<kStride, kWidth>(j - s)) sum[s] = fma(gradient[(j - s) / kStride], in, sum[s]);
  }
#pragma GCC unroll 8
  for (int s = 0; s < kTaps; ++s) store(sums + s * kLanes<V>, sum[s]);
}

/// kWidth pixels of dy, whose rows are `dy_row` elements long, whose windows lie inside. `x` is the
/// first input, in memory `source`.
template <class Window, int kWidth, class T>
void inner_tile(const Plane<T>& plane, const T* x, const T* source, const T* dy, int64_t dy_row,
                Compute<T>* sums) {
  constexpr int kTaps = Window::kTaps, kStride = Window::kStride;
  const int64_t channels = plane.channels, row_step = plane.width * channels;
  for_lanes_and_halves<Compute<T>>(channels, [&]<class V>(int64_t c) {
    V gradient[kWidth];
    const T* from = opaque(dy + c);
#pragma GCC unroll 16
    for (int j = 0; j < kWidth; ++j) gradient[j] = load<V>(from + j * channels);
    Compute<T>* sum = opaque(sums + kTaps * kTaps * c);
#pragma GCC unroll 8
    for (int r = 0; r < kTaps; ++r)
      add_row<Window>(opaque(x + r * row_step + c), channels, gradient,
                      sum + r * kTaps * kLanes<V>);
    // The rows below.
    if constexpr (is_vector<V>) {
      prefetch(dy + dy_row + c * kWidth, kWidth * kLanes<V>);
      for (int r = kTaps; r < kTaps + kStride; ++r)
        prefetch(source + r * plane.source_row() + c * kStride * kWidth,
                 kStride * kWidth * kLanes<V>);
    }
  });
}

/// The same where only the rows of `rows` exist; `x` is in the first of them.
template <class Window, int kWidth, class T>
void edge_tile(const Plane<T>& plane, const T* x, const Meeting& rows, const T* dy,
               Compute<T>* sums) {
  constexpr int kTaps = Window::kTaps;
  int64_t channels = plane.channels, row_step = plane.width * channels;
  for_lanes_and_halves<Compute<T>>(channels, [&]<class V>(int64_t c) {
    V gradient[kWidth];
#pragma GCC unroll 16
    for (int j = 0; j < kWidth; ++j) gradient[j] = load<V>(dy + j * channels + c);
    for (int64_t r = 0; r < rows.count; ++r)
      add_row<Window>(opaque(x + r * row_step + c), channels, gradient,
                      sums + kTaps * kTaps * c + (rows.first + r) * kTaps * kLanes<V>);
  });
}

template <class T>
struct WeightSweep {
  const ConvShape& shape;
  const T *x, *dy;

  void pixels(const Plane<T>& in, const Meeting& rows, int64_t begin, int64_t end, const T* dy_row,
              Compute<T>* sums) const {
    for (int64_t q = begin; q < end; ++q) {
      Meeting columns =
          inputs_under(q, shape.w, shape.s, shape.stride.w, shape.padding.w, shape.dilation.w);
      one_pixel(in, rows, columns, shape, dy_row + q * shape.c, sums);
    }
  }

  Meeting rows_under(int64_t i) const {
    return inputs_under(i % shape.p, shape.h, shape.r, shape.stride.h, shape.padding.h,
                        shape.dilation.h);
  }

  /// Row i of dy over the batch; `in` has what is under it.
  void row(AnyWindow, const Plane<T>& in, int64_t i, Compute<T>* sums) const {
    pixels(in, rows_under(i), 0, shape.q, dy + i * shape.q * shape.c, sums);
  }
  template <class Window>
  void row(Window, const Plane<T>& in, int64_t i, Compute<T>* sums) const {
    constexpr int kTaps = Window::kTaps, kStride = Window::kStride;
    const T* dy_row = dy + i * shape.q * shape.c;
    const Meeting rows = rows_under(i);
    const Interior inside = in.has_margins
                                ? Interior(shape.q)
                                : Interior(shape.q, shape.w, kTaps, kStride, shape.padding.w);
    pixels(in, rows, 0, inside.begin, dy_row, sums);
    for_tiles<kTilePixels>(inside.begin, inside.end, [&]<int kWidth>(int64_t q) {
      const int64_t column = q * kStride - shape.padding.w;
      const T* first = in.at(rows.at, column);
      if (rows.count == kTaps)
        inner_tile<Window, kWidth>(in, first, in.source(rows.at, column), dy_row + q * shape.c,
                                   shape.q * shape.c, sums);
      else
        edge_tile<Window, kWidth>(in, first, rows, dy_row + q * shape.c, sums);
    });
    pixels(in, rows, inside.end, shape.q, dy_row, sums);
  }
};

/// Adds up the totals of parts, `step` apart, in order.
template <class T>
void join_totals(const ConvShape& shape, const double* totals, int64_t parts, int64_t step,
                 T* dweight) {
  constexpr int64_t kGrain = 16384;  // totals that repay a thread
  const int64_t taps = shape.r * shape.s;
  parallel_for(shape.c, kGrain / (taps * parts) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const ChannelBlock<T> block(c, shape.c);
      for (int64_t tap = 0; tap < taps; ++tap) {
        double total = 0;
        for (int64_t part = 0; part < parts; ++part)
          total += totals[part * step + block.at(c, tap, taps)];
        dweight[c * taps + tap] = static_cast<T>(total);
      }
    }
  });
}

}  // namespace brim::cpu::weight_sweep
