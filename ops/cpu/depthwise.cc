// Forward and data gradient of depthwise convolution.
#include "brim/ops/cpu/depthwise.h"

#include <algorithm>
#include <type_traits>

#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/depthwise_statistics.h"
#include "brim/ops/cpu/depthwise_tiles.h"

namespace brim::cpu {
namespace {

// Results larger than this would push everything else out of the last cache: they are stored past
// it, which saves reading them first.
constexpr int64_t kStreamBytes = 24 << 20;

/// Room for the weights in blocks.
template <class T>
Compute<T>* take_weights(const ConvShape& shape, ScratchCursor& scratch) {
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
template <class Window, int kWidth, bool kStream, class T, class Statistics>
void inner_tile(const Plane<T>& from, const T* x, const Compute<T>* weight, const T* bias, T* to,
                const Statistics& statistics) {
  constexpr int kTaps = Window::kTaps, kStride = Window::kStride;
  int64_t channels = from.channels, row_step = from.width * channels;
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
        prefetch(x + r * row_step + c * kStride * kWidth, kStride * kWidth * kLanes<V>);
    T* out = opaque(to + c);
#pragma GCC unroll 16
    for (int j = 0; j < kWidth; ++j) {
      if constexpr (kStream && is_vector<V>) {
        stream(out + j * channels, sums[j]);
      } else {
        store(out + j * channels, sums[j]);
      }
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

  /// Calls row(plane, y, output, statistics) for every row of the result.
  template <class Row>
  void run(const Row& row) const {
    int64_t row_size = to_width * shape.c, image = from_height * from_width * shape.c;
    const auto run_row = [&](int64_t i, const auto& statistics) {
      row(Plane<T>{from + i / to_height * image, from_width, shape.c}, i % to_height,
          to + i * row_size, statistics);
    };
    if constexpr (std::is_same_v<T, float>)
      if (moments != nullptr) return moments->run(run_row);
    parallel_for(shape.n * to_height, kDepthwiseGrain / std::max<int64_t>(row_size, 1) + 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) run_row(i, NoStatistics());
                   stream_fence();
                 });
  }

  /// Whole cache lines, and many of them.
  bool streams() const {
    int64_t pixel = shape.c * static_cast<int64_t>(sizeof(T));
    return pixel % 64 == 0 && shape.n * to_height * to_width * pixel > kStreamBytes;
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
  void correlate(Window) const {
    constexpr int kTaps = Window::kTaps, kStride = Window::kStride;
    Interior inside(to_width, from_width, kTaps, kStride, padding.w);
    bool streaming = streams();
    run([&](const Plane<T>& in, int64_t y, T* out, const auto& of_row) {
      Meeting rows = rows_under(y);
      // What is inside comes first: pixels at the border are unlike the others, and no good shift.
      const auto statistics = of_row.starting_at(inside.begin < inside.end ? inside.begin : 0);
      for_tiles<kTilePixels>(inside.begin, inside.end, [&]<int kWidth>(int64_t q) {
        const T* x = in.at(rows.at, q * kStride - padding.w);
        T* tile = out + q * shape.c;
        const auto of_tile = statistics.of_pixel(q);
        if (rows.count < kTaps)
          return edge_tile<Window, kWidth>(in, x, rows, weight, bias, tile, of_tile);
        if (streaming) return inner_tile<Window, kWidth, true>(in, x, weight, bias, tile, of_tile);
        inner_tile<Window, kWidth, false>(in, x, weight, bias, tile, of_tile);
      });
      pixels(in, rows, 0, inside.begin, out, statistics);
      pixels(in, rows, inside.end, to_width, out, statistics);
    });
  }
};

/// The data gradient under any stride: a sweep over x that reads dy.
template <class T>
struct GradientSweep {
  const ConvShape& shape;
  Sweep<T> sweep;

  Meeting rows_over(int64_t y) const {
    return outputs_over(y, shape.p, shape.r, shape.stride.h, shape.padding.h, shape.dilation.h);
  }

  void pixels(const Plane<T>& in, const Meeting& rows, int64_t begin, int64_t end, T* out) const {
    for (int64_t x = begin; x < end; ++x) {
      Meeting columns =
          outputs_over(x, shape.q, shape.s, shape.stride.w, shape.padding.w, shape.dilation.w);
      one_pixel(in, rows, columns, shape, sweep.weight, sweep.bias, out + x * shape.c);
    }
  }

  void any() const {
    sweep.run([&](const Plane<T>& in, int64_t y, T* out, const auto&) {
      pixels(in, rows_over(y), 0, shape.w, out);
    });
  }

  /// Pairs of columns 2q - padding and 2q - padding + 1 of x, for kWidth successive q: the first
  /// meets the even taps, t of them of output q - t / 2, the second the odd ones. `dy` is at q in
  /// the first of the rows that exist.
  template <int kTaps, int kWidth, bool kStream>
  void pairs(const Plane<T>& in, const T* dy, const Meeting& rows, T* to) const {
    constexpr int kBefore = kTaps / 2;  // outputs left of q
    int64_t channels = in.channels, row_step = rows.at_step * in.width * channels;
    for_lanes_and_halves<Compute<T>>(channels, [&]<class V>(int64_t c) {
      V even[kWidth] = {}, odd[kWidth] = {};
      for (int64_t i = 0; i < rows.count; ++i) {
        const T* row = opaque(dy + i * row_step - kBefore * channels + c);
        const Compute<T>* w =
            sweep.weight + kTaps * kTaps * c + (rows.first + i * rows.step) * kTaps * kLanes<V>;
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
        if constexpr (kStream && is_vector<V>) {
          stream(out + 2 * j * channels, even[j]);
          stream(out + (2 * j + 1) * channels, odd[j]);
        } else {
          store(out + 2 * j * channels, even[j]);
          store(out + (2 * j + 1) * channels, odd[j]);
        }
      }
    });
  }

  /// Of a stride of 2.
  template <int kTaps>
  void by_pairs() const {
    int64_t padding = shape.padding.w;
    // All outputs from q - kTaps / 2 on exist, and so do both columns.
    int64_t first = std::max<int64_t>(kTaps / 2, (padding + 1) / 2);
    int64_t end = std::max(first, std::min(shape.q, (shape.w + padding) / 2));
    bool streaming = sweep.streams();
    sweep.run([&](const Plane<T>& in, int64_t y, T* out, const auto&) {
      Meeting rows = rows_over(y);
      pixels(in, rows, 0, std::min(shape.w, 2 * first - padding), out);
      for_tiles<4>(first, end, [&]<int kWidth>(int64_t q) {
        T* tile = out + (2 * q - padding) * shape.c;
        if (streaming) return pairs<kTaps, kWidth, true>(in, in.at(rows.at, q), rows, tile);
        pairs<kTaps, kWidth, false>(in, in.at(rows.at, q), rows, tile);
      });
      pixels(in, rows, std::min(shape.w, 2 * end - padding), shape.w, out);
    });
  }
};

template <class T>
void forward_sweep(const ConvShape& shape, const T* x, const Compute<T>* weights, const T* bias,
                   T* y, const RowMoments* moments) {
  Sweep<T> sweep{shape,   x,       weights, bias,          y,      shape.h,
                 shape.w, shape.p, shape.q, shape.padding, moments};
  with_window(
      shape, [&](auto window) { sweep.correlate(window); }, [&] { sweep.correlate(); });
}

}  // namespace

template <class T>
int64_t depthwise_scratch(const ConvShape& shape) {
  ScratchCursor cursor(nullptr);
  take_weights<T>(shape, cursor);
  return cursor.used();
}

template <class T>
void depthwise(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y,
               void* scratch) {
  ScratchCursor cursor(scratch);
  Compute<T>* blocks = take_weights<T>(shape, cursor);
  reorder_weights(shape, weight, false, blocks);
  forward_sweep(shape, x, blocks, bias, y, nullptr);
}

bool depthwise_gathers_statistics(const ConvShape& shape) {
  constexpr int64_t kWidest = 256;  // a part is whole rows, and its sums are in float32
  return shape.is_depthwise() && shape.c % kLanes<Vector<float>> == 0 && shape.pixels() > 0 &&
         shape.q <= kWidest;
}

int64_t depthwise_with_statistics_scratch(const ConvShape& shape) {
  ScratchCursor cursor(nullptr);
  take_weights<float>(shape, cursor);
  RowMoments(shape, num_threads(), cursor);
  return cursor.used();
}

void depthwise_with_statistics(const ConvShape& shape, const float* x, const float* weight,
                               const float* bias, float* y, const BatchStatistics& statistics,
                               void* scratch) {
  ScratchCursor cursor(scratch);
  float* blocks = take_weights<float>(shape, cursor);
  const RowMoments moments(shape, num_threads(), cursor);
  reorder_weights(shape, weight, false, blocks);
  forward_sweep(shape, x, blocks, bias, y, &moments);
  moments.finish(statistics);
}

template <class T>
void depthwise_backward_data(const ConvShape& shape, const T* dy, const T* weight, T* dx,
                             void* scratch) {
  ScratchCursor cursor(scratch);
  Compute<T>* blocks = take_weights<T>(shape, cursor);
  const Pair padding{shape.r - 1 - shape.padding.h, shape.s - 1 - shape.padding.w};
  const Sweep<T> sweep{shape, dy, blocks, nullptr, dx, shape.p, shape.q, shape.h, shape.w, padding};
  const GradientSweep<T> gradient{shape, sweep};
  with_window(
      shape,
      [&]<class Window>(Window window) {
        // With stride 1 the gradient is the correlation with the weights turned by 180 degrees.
        reorder_weights(shape, weight, Window::kStride == 1, blocks);
        if constexpr (Window::kStride == 1)
          sweep.correlate(window);
        else
          gradient.template by_pairs<Window::kTaps>();
      },
      [&] {
        reorder_weights(shape, weight, false, blocks);
        gradient.any();
      });
}

#define BRIM_INSTANTIATE(T)                                                           \
  template int64_t depthwise_scratch<T>(const ConvShape&);                            \
  template void depthwise(const ConvShape&, const T*, const T*, const T*, T*, void*); \
  template void depthwise_backward_data(const ConvShape&, const T*, const T*, T*, void*);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
BRIM_INSTANTIATE(BFloat16)
BRIM_INSTANTIATE(Float16)
#undef BRIM_INSTANTIATE

}  // namespace brim::cpu
