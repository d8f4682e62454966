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

/// Stores neighbouring pixels, V: so many channels of each, from `to` on; vectors past the caches,
/// if `streaming`.
template <class V, int kCount, class T>
[[gnu::always_inline]] inline void put_pixels(const V (&values)[kCount], T* to, int64_t channels,
                                              bool streaming) {
  to = opaque(to);
#pragma GCC unroll 16
  for (int j = 0; j < kCount; ++j) {
    if (streaming && is_vector<V>)
      stream(to + j * channels, values[j]);
    else
      store(to + j * channels, values[j]);
  }
}

/// What a sweep puts a row of its result into, a tile at a time: memory, and statistics. A kernel
/// that wants no more than to use a result once has a sink of its own.
template <class T, class Statistics = NoStatistics>
struct RowSink {
  static constexpr bool kWholeVectors = false;  ///< other channels too

  T* row;
  int64_t channels;
  bool streaming;  ///< past the caches
  Statistics statistics = {};

  /// The pixel that comes first.
  RowSink starting_at(int64_t pixel) const {
    return {row, channels, streaming, statistics.starting_at(pixel)};
  }
  /// Neighbours from `pixel` on; V: so many channels from `channel` on.
  template <class V, int kCount>
  [[gnu::always_inline]] void operator()(const V (&values)[kCount], int64_t pixel,
                                         int64_t channel) const {
    put_pixels(values, row + pixel * channels + channel, channels, streaming);
    statistics.of_pixel(pixel)(values, channel);
  }
};

/// `body<V>(c)` for all channels, of vectors and of what is left; of a sink that takes none but
/// whole vectors, no more.
template <class T, class Sink, class Body>
inline void for_channels(int64_t channels, const Body& body) {
  if constexpr (Sink::kWholeVectors)
    for (int64_t c = 0; c < channels; c += kLanes<Vector<T>>)
      body.template operator()<Vector<T>>(c);
  else
    for_lanes_and_halves<T>(channels, body);
}

/// One pixel under any window: the sum over the taps that meet something. kColumns is
/// columns.count, or 0.
template <int kColumns, class T, class Sink>
void sum_taps(const Plane<T>& from, const Meeting& rows, const Meeting& columns,
              const ConvShape& shape, const Compute<T>* weight, const T* bias, int64_t pixel,
              const Sink& sink) {
  int64_t count = kColumns == 0 ? columns.count : kColumns;
  int64_t x_row = rows.at_step * from.width * shape.c, x_step = columns.at_step * shape.c;
  const T* x0 = rows.count == 0 ? nullptr : from.at(rows.at, columns.at);
  int64_t tap = rows.first * shape.s + columns.first;
  for_channels<Compute<T>, Sink>(shape.c, [&]<class V>(int64_t c) {
    V sum = bias == nullptr ? V{} : load<V>(bias + c);
    for (int64_t i = 0; i < rows.count; ++i) {
      const T* x = x0 + i * x_row + c;
      const Compute<T>* w =
          weight + shape.r * shape.s * c + (tap + i * rows.step * shape.s) * kLanes<V>;
#pragma GCC unroll 4
      for (int64_t j = 0; j < count; ++j)
        sum = fma(load<V>(w + j * columns.step * kLanes<V>), load<V>(x + j * x_step), sum);
    }
    const V one[1] = {sum};
    sink(one, pixel, c);
  });
}

template <class T, class Sink>
void one_pixel(const Plane<T>& from, const Meeting& rows, const Meeting& columns,
               const ConvShape& shape, const Compute<T>* weight, const T* bias, int64_t pixel,
               const Sink& sink) {
  switch (columns.count) {
    case 1:
      return sum_taps<1>(from, rows, columns, shape, weight, bias, pixel, sink);
    case 2:
      return sum_taps<2>(from, rows, columns, shape, weight, bias, pixel, sink);
    case 3:
      return sum_taps<3>(from, rows, columns, shape, weight, bias, pixel, sink);
    default:
      return sum_taps<0>(from, rows, columns, shape, weight, bias, pixel, sink);
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

/// kWidth neighbouring outputs whose windows lie inside. `x` is the first input, in memory
/// `source`.
template <class Window, int kWidth, class T, class Sink>
void inner_tile(const Plane<T>& from, const T* x, const T* source, const Compute<T>* weight,
                const T* bias, int64_t pixel, const Sink& sink) {
  constexpr int kTaps = Window::kTaps, kStride = Window::kStride;
  const int64_t channels = from.channels, row_step = from.width * channels;
  for_channels<Compute<T>, Sink>(channels, [&]<class V>(int64_t c) {
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
        prefetch(source + r * from.source_row() + c * kStride * kWidth,
                 kStride * kWidth * kLanes<V>);
    sink(sums, pixel, c);
  });
}

/// The same where only the rows of `rows` exist; `x` is in the first of them.
template <class Window, int kWidth, class T, class Sink>
void edge_tile(const Plane<T>& from, const T* x, const Meeting& rows, const Compute<T>* weight,
               const T* bias, int64_t pixel, const Sink& sink) {
  constexpr int kTaps = Window::kTaps;
  int64_t channels = from.channels, row_step = from.width * channels;
  for_channels<Compute<T>, Sink>(channels, [&]<class V>(int64_t c) {
    V sums[kWidth];
#pragma GCC unroll 16
    for (int j = 0; j < kWidth; ++j) sums[j] = bias == nullptr ? V{} : load<V>(bias + c);
    for (int64_t r = 0; r < rows.count; ++r)
      add_row<Window>(opaque(x + r * row_step + c), channels,
                      weight + kTaps * kTaps * c + (rows.first + r) * kTaps * kLanes<V>, sums);
    sink(sums, pixel, c);
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

  /// Calls row(plane, y, sink) for every row of the result.
  template <class Row>
  void run(const Row& row) const {
    const int64_t row_size = to_width * shape.c;
    const bool streaming = streams();
    const auto run_row = [&](InputRows<T>& rows, int64_t i, const auto& statistics) {
      const int64_t image = i / to_height, y = i % to_height;
      row(rows.are_normalized() ? rows.under(image, rows_under(y)) : rows.of_image(image), y,
          RowSink<T, std::remove_cvref_t<decltype(statistics)>>{to + i * row_size, shape.c,
                                                                streaming, statistics});
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

  template <class Sink>
  void pixels(const Plane<T>& in, const Meeting& rows, int64_t begin, int64_t end,
              const Sink& sink) const {
    for (int64_t q = begin; q < end; ++q) {
      Meeting columns =
          inputs_under(q, from_width, shape.s, shape.stride.w, padding.w, shape.dilation.w);
      one_pixel(in, rows, columns, shape, weight, bias, q, sink);
    }
  }

  /// Correlation, row by row.
  template <class Window>
  void correlate(Window window) const {
    run([&](const Plane<T>& in, int64_t y, const auto& sink) {
      correlate_row(window, in, y, sink);
    });
  }
  // Row y. What is inside comes first: pixels at the border are unlike the others, and no good
  // shift for statistics.
  template <class Sink>
  void correlate_row(AnyWindow, const Plane<T>& in, int64_t y, const Sink& to_sink) const {
    const int64_t middle = to_width / 2;
    const Meeting rows = rows_under(y);
    const auto sink = to_sink.starting_at(middle);
    pixels(in, rows, middle, std::min(middle + 1, to_width), sink);
    pixels(in, rows, 0, middle, sink);
    pixels(in, rows, middle + 1, to_width, sink);
  }
  template <class Window, class Sink>
  void correlate_row(Window, const Plane<T>& in, int64_t y, const Sink& to_sink) const {
    constexpr int kTaps = Window::kTaps, kStride = Window::kStride;
    const Interior inside(to_width, from_width, kTaps, kStride, padding.w);
    const Meeting rows = rows_under(y);
    const auto sink = to_sink.starting_at(inside.begin < inside.end ? inside.begin : 0);
    for_tiles<kTilePixels>(inside.begin, inside.end, [&]<int kWidth>(int64_t q) {
      const T* x = in.at(rows.at, q * kStride - padding.w);
      if (rows.count < kTaps) return edge_tile<Window, kWidth>(in, x, rows, weight, bias, q, sink);
      const T* source = in.source(rows.at, q * kStride - padding.w);
      inner_tile<Window, kWidth>(in, x, source, weight, bias, q, sink);
    });
    pixels(in, rows, 0, inside.begin, sink);
    pixels(in, rows, inside.end, to_width, sink);
  }
};

}  // namespace brim::cpu
