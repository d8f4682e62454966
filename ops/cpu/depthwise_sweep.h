// Depthwise correlation: each row of the result from the rows of an image under it. It is the
// forward pass, and with the weights turned the data gradient of stride 1.
#pragma once

#include <algorithm>
#include <type_traits>

#include "brim/base/parallel.h"
#include "brim/ops/cpu/channel_rows.h"
#include "brim/ops/cpu/depthwise_statistics.h"
#include "brim/ops/cpu/depthwise_tiles.h"
#include "brim/ops/cpu/input_norm.h"

namespace brim::cpu {

/// Room for the weights in blocks.
template <class T>
inline Compute<T>* take_weights(const ConvShape& shape, ScratchCursor& scratch) {
  return scratch.take<Compute<T>>(shape.r * shape.s * shape.c);
}

/// The weights in blocks of channels; `flip` reverses both R and S.
template <class T>
void reorder_weights(const ConvShape& shape, const T* weight, bool flip, Compute<T>* to) {
  int64_t taps = shape.r * shape.s;
  for (int64_t c = 0; c < shape.c; ++c) {
    ChannelBlock<Compute<T>> block(c, shape.c);
    for (int64_t tap = 0; tap < taps; ++tap)
      to[block.at(c, flip ? taps - 1 - tap : tap, taps)] =
          convert<Compute<T>>(weight[c * taps + tap]);
  }
}

/// One pixel under any window: the sum over the taps that meet something. kColumns is
/// columns.count, or 0.
template <int kColumns, class T, class Statistics>
void sum_taps(const Plane<T>& from, const Meeting& rows, const Meeting& columns,
              const ConvShape& shape, const Compute<T>* weight, const T* bias, T* to,
              const Statistics& statistics) {
  int64_t count = kColumns == 0 ? columns.count : kColumns;
  int64_t x_row = rows.at_step * from.width * shape.c, x_step = columns.at_step * shape.c;
  const T* x0 = rows.count == 0 ? nullptr : from.at(rows.at, columns.at);
  int64_t tap = rows.first * shape.s + columns.first;
  for_lanes_and_halves<Compute<T>>(shape.c, [&]<class V>(int64_t c) {
    V sum = bias == nullptr ? V{} : load<V>(bias + c);
    for (int64_t i = 0; i < rows.count; ++i) {
      const T* x = x0 + i * x_row + c;
      const Compute<T>* w =
          weight + shape.r * shape.s * c + (tap + i * rows.step * shape.s) * kLanes<V>;
#pragma GCC unroll 4
      for (int64_t j = 0; j < count; ++j)
        sum = fma(load<V>(w + j * columns.step * kLanes<V>), load<V>(x + j * x_step), sum);
    }
    store(to + c, sum);
    const V one[1] = {sum};
    statistics(one, c);
  });
}

template <class T, class Statistics = NoStatistics>
void one_pixel(const Plane<T>& from, const Meeting& rows, const Meeting& columns,
               const ConvShape& shape, const Compute<T>* weight, const T* bias, T* to,
               const Statistics& statistics = {}) {
  switch (columns.count) {
    case 1:
      return sum_taps<1>(from, rows, columns, shape, weight, bias, to, statistics);
    case 2:
      return sum_taps<2>(from, rows, columns, shape, weight, bias, to, statistics);
    case 3:
      return sum_taps<3>(from, rows, columns, shape, weight, bias, to, statistics);
    default:
      return sum_taps<0>(from, rows, columns, shape, weight, bias, to, statistics);
  }
}

/// Adds one row of a window: kWidth outputs from the inputs at `x`, with weights at `w`.
template <class Window, int kWidth, class V, class T>
inline void add_row(const T* x, int64_t channels, const Compute<T>* w, V (&sums)[kWidth]) {
  constexpr int kTaps = Window::kTaps, kStride = Window::kStride;
  V weights[kTaps];
#pragma GCC unroll 8
  for (int s = 0; s < kTaps; ++s) weights[s] = load<V>(w + s * kLanes<V>);
#pragma GCC unroll 24
  for (int j = 0; j < kStride * (kWidth - 1) + kTaps; ++j) {
    // Input j meets tap s of output (j - s) / kStride.
    V in = load<V>(x + j * channels);
#pragma GCC unroll 8
    for (int s = 0; s < kTaps; ++s)
      if (meets<kStride, kWidth>(j - s))
        sums[(j - s) / kStride] = fma(weights[s], in, sums[(j - s) / kStride]);
  }
}

/// kWidth neighbouring outputs whose windows lie inside. `x` is the first input.
template <class Window, int kWidth, class T, class Statistics>
void inner_tile(const Plane<T>& from, const T* x, const Compute<T>* weight, const T* bias, T* to,
                bool streaming, const Statistics& statistics) {
  constexpr int kTaps = Window::kTaps, kStride = Window::kStride;
  int64_t channels = from.channels, row_step = from.width * channels;
  const T* ahead = from.source_of(x);
  for_lanes_and_halves<Compute<T>>(channels, [&]<class V>(int64_t c) {
    V sums[kWidth];
#pragma GCC unroll 16
    for (int j = 0; j < kWidth; ++j) sums[j] = bias == nullptr ? V{} : load<V>(bias + c);
    const Compute<T>* w = opaque(weight + kTaps * kTaps * c);
#pragma GCC unroll 8
    for (int r = 0; r < kTaps; ++r)
      add_row<Window>(opaque(x + r * row_step + c), channels, w + r * kTaps * kLanes<V>, sums);
    // The rows that the outputs below will need beyond these.
    if constexpr (is_vector<V>)
      for (int r = kTaps; r < kTaps + kStride; ++r)
        prefetch(ahead + r * row_step + c * kStride * kWidth, kStride * kWidth * kLanes<V>);
    T* out = opaque(to + c);
#pragma GCC unroll 16
    for (int j = 0; j < kWidth; ++j) {
      if (streaming && is_vector<V>)
        stream(out + j * channels, sums[j]);
      else
        store(out + j * channels, sums[j]);
    }
    statistics(sums, c);
  });
}

/// The same where only the rows of `rows` exist; `x` is in the first of them.
template <class Window, int kWidth, class T, class Statistics>
void edge_tile(const Plane<T>& from, const T* x, const Meeting& rows, const Compute<T>* weight,
               const T* bias, T* to, const Statistics& statistics) {
  constexpr int kTaps = Window::kTaps;
  int64_t channels = from.channels, row_step = from.width * channels;
  for_lanes_and_halves<Compute<T>>(channels, [&]<class V>(int64_t c) {
    V sums[kWidth];
#pragma GCC unroll 16
    for (int j = 0; j < kWidth; ++j) sums[j] = bias == nullptr ? V{} : load<V>(bias + c);
    for (int64_t r = 0; r < rows.count; ++r)
      add_row<Window>(opaque(x + r * row_step + c), channels,
                      weight + kTaps * kTaps * c + (rows.first + r) * kTaps * kLanes<V>, sums);
#pragma GCC unroll 16
    for (int j = 0; j < kWidth; ++j) store(to + j * channels + c, sums[j]);
    statistics(sums, c);
  });
}

/// A sweep over the rows of a result, each from rows of another image.
template <class T>
struct Sweep {
  const ConvShape& shape;
  const T* from;
  const Compute<T>* weight;  // in blocks
  const T* bias;
  T* to;
  int64_t from_height, from_width, to_height, to_width;
  Pair padding;
  const RowMoments* moments = nullptr;  ///< gathered, if it is not null
  OnTheWay way = {};                    ///< of the input; only where moments are gathered

  /// Calls row(plane, y, output, statistics) for every row of the result.
  template <class Row>
  void run(const Row& row) const {
    int64_t row_size = to_width * shape.c;
    const auto run_row = [&](InputRows<T>& rows, int64_t i, const auto& statistics) {
      const int64_t image = i / to_height, y = i % to_height;
      row(rows.are_normalized() ? rows.under(image, rows_under(y)) : rows.of_image(image), y,
          to + i * row_size, statistics);
    };
    if constexpr (std::is_same_v<T, float>)
      if (moments != nullptr)
        return moments->run([&](int64_t thread) {
          return [&, rows = InputRows<T>(shape, from, way, thread)](
                     int64_t i, const auto& statistics) mutable { run_row(rows, i, statistics); };
        });
    parallel_for(shape.n * to_height, kDepthwiseGrain / std::max<int64_t>(row_size, 1) + 1,
                 [&](int64_t begin, int64_t end) {
                   InputRows<T> rows(from, from_height, from_width, shape.c);
                   for (int64_t i = begin; i < end; ++i) run_row(rows, i, NoStatistics());
                   stream_fence();
                 });
  }

  /// Is the result better stored past the caches? Its pixels are whole lines of them.
  bool streams() const {
    return shape.c * static_cast<int64_t>(sizeof(T)) % 64 == 0 &&
           worth_streaming(to, shape.n * to_height * to_width * shape.c);
  }

  Meeting rows_under(int64_t y) const {
    return inputs_under(y, from_height, shape.r, shape.stride.h, padding.h, shape.dilation.h);
  }

  template <class Statistics>
  void pixels(const Plane<T>& in, const Meeting& rows, int64_t begin, int64_t end, T* out,
              const Statistics& statistics) const {
    for (int64_t q = begin; q < end; ++q) {
      Meeting columns =
          inputs_under(q, from_width, shape.s, shape.stride.w, padding.w, shape.dilation.w);
      one_pixel(in, rows, columns, shape, weight, bias, out + q * shape.c, statistics.of_pixel(q));
    }
  }

  /// Correlation with any window.
  void correlate() const {
    // The middle comes first: pixels at the border are unlike the others, and no good shift.
    const int64_t middle = to_width / 2;
    run([&](const Plane<T>& in, int64_t y, T* out, const auto& of_row) {
      const Meeting rows = rows_under(y);
      const auto statistics = of_row.starting_at(middle);
      pixels(in, rows, middle, std::min(middle + 1, to_width), out, statistics);
      pixels(in, rows, 0, middle, out, statistics);
      pixels(in, rows, middle + 1, to_width, out, statistics);
    });
  }

  /// Correlation with a window that has a fast path.
  template <class Window>
  void correlate(Window window) const {
    const bool streaming = streams();
    run([&](const Plane<T>& in, int64_t y, T* out, const auto& of_row) {
      correlate_row(window, in, y, out, streaming, of_row);
    });
  }
  /// Row y of it.
  template <class Window, class Statistics>
  void correlate_row(Window, const Plane<T>& in, int64_t y, T* out, bool streaming,
                     const Statistics& of_row) const {
    constexpr int kTaps = Window::kTaps, kStride = Window::kStride;
    const Interior inside(to_width, from_width, kTaps, kStride, padding.w);
    const Meeting rows = rows_under(y);
    // What is inside comes first: pixels at the border are unlike the others, and no good shift.
    const auto statistics = of_row.starting_at(inside.begin < inside.end ? inside.begin : 0);
    for_tiles<kTilePixels>(inside.begin, inside.end, [&]<int kWidth>(int64_t q) {
      const T* x = in.at(rows.at, q * kStride - padding.w);
      T* tile = out + q * shape.c;
      const auto of_tile = statistics.of_pixel(q);
      if (rows.count < kTaps)
        return edge_tile<Window, kWidth>(in, x, rows, weight, bias, tile, of_tile);
      inner_tile<Window, kWidth>(in, x, weight, bias, tile, streaming, of_tile);
    });
    pixels(in, rows, 0, inside.begin, out, statistics);
    pixels(in, rows, inside.end, to_width, out, statistics);
  }
};

}  // namespace brim::cpu
