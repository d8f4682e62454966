#include "brim/ops/cpu/winograd_grid.h"

#include "brim/ops/cpu/channel_rows.h"
#include "brim/ops/cpu/gradient_tiles.h"
#include "brim/ops/cpu/input_norm.h"

namespace brim::cpu::winograd {
namespace {

/// What becomes of a vector of x before it is transformed: nothing.
struct AsItIs {
  V operator()(V x) const { return x; }
};
/// Or what `InputNorm` does, with the coefficients of a vector of channels in registers.
template <Activation activation>
struct Normalized {
  V mean, scale, shift;

  Normalized(const NormCoefficients<float>& by, int64_t channel)
      : mean(load<V>(by.mean + channel)),
        scale(load<V>(by.scale + channel)),
        shift(load<V>(by.shift + channel)) {}
  V operator()(V x) const { return activate<activation>(normalized(x, mean, scale, shift)); }
};

/// Rows of an image that a tile sees; null above it and below.
template <int kIn>
struct Lines {
  const float* lines[kIn] = {};
  int64_t width, channels;
  bool are_inside = true;  ///< all of them

  /// From row `first` of an image on, which may be above it.
  Lines(const float* image, int64_t first, const ConvShape& shape)
      : width(shape.w), channels(shape.c) {
    for (int i = 0; i < kIn; ++i) {
      const int64_t at = first + i;
      if (at >= 0 && at < shape.h)
        lines[i] = image + at * width * channels;
      else
        are_inside = false;
    }
  }

  /// Column `at` of them through `read`, zero outside, transformed from top to bottom.
  template <class Read>
  void transform_column(int64_t at, int64_t channel, const Read& read, V (&to)[kIn]) const {
    const bool is_inside = at >= 0 && at < width;
    const int64_t offset = at * channels + channel;
    V d[kIn];
    if (is_inside && are_inside)
      for (int i = 0; i < kIn; ++i) d[i] = read(load<V>(lines[i] + offset));
    else
      for (int i = 0; i < kIn; ++i)
        d[i] = is_inside && lines[i] != nullptr ? read(load<V>(lines[i] + offset)) : V{};
    transform_input(d, to);
  }
};

}  // namespace

template <int kOut>
void Grid<kOut>::transform_x(const float* x, const InputNorm* norm, Tiles tiles, Channels channels,
                             const Elements& to) const {
  if (norm == nullptr)
    return transform_through(
        x, tiles, channels, [](int64_t) { return AsItIs(); }, to);
  with_activation(norm->activation(), [&](auto activation) {
    transform_through(
        x, tiles, channels,
        [&](int64_t channel) { return Normalized<activation()>(norm->coefficients(), channel); },
        to);
  });
}

template <int kOut>
template <class ReadOf>
void Grid<kOut>::transform_through(const float* x, Tiles tiles, Channels channels,
                                   const ReadOf& read_of, const Elements& to) const {
  constexpr int kIn = kInputs<kOut>;
  const int64_t matrix = to.matrix();
  for_runs(tiles, [&, matrix](const Run& run) {
    const float* image = x + run.image * shape_.h * shape_.w * shape_.c + channels.begin;
    const Lines<kIn> lines(image, run.row - shape_.padding.h, shape_);
    for (int64_t c = 0; c < channels.count; c += kWidth) {
      // The last columns of a tile are the next one's first.
      constexpr int kShared = kIn - kOut;
      const auto read = read_of(channels.begin + c);
      V columns[kIn][kIn];
      int64_t column = run.column - shape_.padding.w;
#pragma GCC unroll 8
      for (int j = kOut; j < kIn; ++j) lines.transform_column(column++, c, read, columns[j]);
      float* element = to.of(0, run.tile) + c;
      for (int64_t tile = 0; tile < run.count; ++tile, element += to.row()) {
#pragma GCC unroll 8
        for (int j = 0; j < kShared; ++j)
#pragma GCC unroll 8
          for (int i = 0; i < kIn; ++i) columns[j][i] = columns[kOut + j][i];
#pragma GCC unroll 8
        for (int j = kShared; j < kIn; ++j) lines.transform_column(column++, c, read, columns[j]);
        float* at = element;
#pragma GCC unroll 8
        for (int i = 0; i < kIn; ++i) {
          V d[kIn], elements[kIn];
#pragma GCC unroll 8
          for (int j = 0; j < kIn; ++j) d[j] = columns[j][i];
          transform_input(d, elements);
#pragma GCC unroll 8
          for (int j = 0; j < kIn; ++j, at += matrix) store(at, elements[j]);
        }
      }
    }
  });
}

template <int kOut>
void Grid<kOut>::transform_dy(const float* dy, Tiles tiles, Channels channels,
                              const Elements& to) const {
  constexpr int kIn = kInputs<kOut>;
  const int64_t matrix = to.matrix(), across = shape_.k, down = shape_.q * shape_.k;
  for_tiles(tiles, [&, matrix, across, down](const Run& tile) {
    const float* from = dy + offset(tile) + channels.begin;
    const bool is_whole = has(tile, kOut - 1, kOut - 1);
    for (int64_t k = 0; k < channels.count; k += kWidth, from += kWidth) {
      const auto inside = [&](int i, int j) { return load<V>(from + i * down + j * across); };
      const auto any = [&](int i, int j) { return has(tile, i, j) ? inside(i, j) : V{}; };
      float* element = to.of(0, tile.tile) + k;
      const auto put = [&](int, const V(&row)[kIn]) __attribute__((always_inline)) {
#pragma GCC unroll 8
        for (int j = 0; j < kIn; ++j, element += matrix) store(element, row[j]);
      };
      if (is_whole)
        transform_square<kOut, kIn>(transform_output_gradient<V>, inside, put);
      else
        transform_square<kOut, kIn>(transform_output_gradient<V>, any, put);
    }
  });
}

template <int kOut>
template <class Body>
inline void Grid<kOut>::for_outputs(const Elements& from, Tiles tiles, Channels channels,
                                    const Body& body) const {
  constexpr int kIn = kInputs<kOut>;
  const int64_t matrix = from.matrix();
  for_tiles(
      tiles, [&, matrix ](const Run& tile) __attribute__((always_inline)) {
        for (int64_t k = 0; k < channels.count; k += kWidth) {
          const float* elements = from.of(0, tile.tile) + k;
          V outputs[kOut * kOut];
          transform_square<kIn, kOut>(
              transform_to_output<V>,
              [&](int i, int j) { return load<V>(elements + (i * kIn + j) * matrix); },
              [&](int i, const V(&row)[kOut]) __attribute__((always_inline)) {
#pragma GCC unroll 8
                for (int j = 0; j < kOut; ++j) outputs[i * kOut + j] = row[j];
              });
          body(tile, k, outputs);
        }
      });
}

template <int kOut>
bool Grid<kOut>::is_streamed(const float* y) const {
  // Lines that are read for a tile's stores alone are waited for, unlike those of long rows.
  constexpr int64_t kLarge = int64_t{4} << 20;
  return worth_streaming(y, shape_.pixels() * shape_.k, kLarge);
}

template <int kOut>
void Grid<kOut>::transform_to_y(const Elements& from, Tiles tiles, Channels channels,
                                const float* bias, float* y, const PartSums* sums) const {
  const auto run = [&](auto streams) {
    const int64_t across = shape_.k, down = shape_.q * shape_.k;
    const auto put = [ =, this ](const Run& tile, int64_t k, V(&outputs)[kOut * kOut])
        __attribute__((always_inline)) {
      float* to = y + offset(tile) + channels.begin + k;
      if (bias != nullptr)
#pragma GCC unroll 16
        for (V& output : outputs) output += load<V>(bias + channels.begin + k);
      if (!has(tile, kOut - 1, kOut - 1)) return put_some(tile, outputs, k, streams(), to, sums);
      if (sums != nullptr) sums->add(outputs, k, tile.tile == 0);
#pragma GCC unroll 4
      for (int i = 0; i < kOut; ++i, to += down)
#pragma GCC unroll 4
        for (int j = 0; j < kOut; ++j)
          if constexpr (streams())
            stream(to + j * across, outputs[i * kOut + j]);
          else
            store(to + j * across, outputs[i * kOut + j]);
    };
    for_outputs(from, tiles, channels, put);
  };
  is_streamed(y) ? run(std::true_type()) : run(std::false_type());
}

template <int kOut>
void Grid<kOut>::put_some(const Run& tile, const V (&outputs)[kOut * kOut], int64_t channel,
                          bool streams, float* to, const PartSums* sums) const {
  bool is_first = tile.tile == 0;
  for (int i = 0; i < kOut; ++i)
    for (int j = 0; j < kOut; ++j) {
      if (!has(tile, i, j)) continue;
      const V one[1] = {outputs[i * kOut + j]};
      float* at = to + (i * shape_.q + j) * shape_.k;
      if (streams)
        stream(at, one[0]);
      else
        store(at, one[0]);
      if (sums != nullptr) sums->add(one, channel, is_first);
      is_first = false;
    }
}

template <int kOut>
void Grid<kOut>::transform_into(const Elements& from, Tiles tiles, Channels channels,
                                const GradientTiles& into, float* g, float* sums) const {
  constexpr int kOutputs = kOut * kOut;
  const int64_t across = shape_.k, down = shape_.q * shape_.k;
  const bool streams = is_streamed(g);
  with_activation(into.activation(), [&](auto activation) {
    const auto put = [&](const Run& tile, int64_t k, const V(&outputs)[kOutputs])
        __attribute__((always_inline)) {
      float* first = g + offset(tile) + channels.begin + k;
      const auto at = [=](int i, int j) { return first + i * down + j * across; };
      const float* next = into.x() + (first - g) + kOut * across;
      for (int i = 0; i < kOut; ++i)
        for (int j = 0; j < kOut; ++j) __builtin_prefetch(next + i * down + j * across);
      const auto pixel = [&](int i) __attribute__((always_inline)) {
        return GradientTiles::Pixel{outputs[i], at(i / kOut, i % kOut)};
      };
      if (has(tile, kOut - 1, kOut - 1))
        return into.put_pixels<activation()>(std::integral_constant<int, kOutputs>(), pixel,
                                             channels.begin + k, streams, sums);
      GradientTiles::Pixel inside[kOutputs];
      int count = 0;
      for (int i = 0; i < kOutputs; ++i)
        if (has(tile, i / kOut, i % kOut)) inside[count++] = pixel(i);
      into.put_pixels<activation()>(
          count, [&](int i) { return inside[i]; }, channels.begin + k, streams, sums);
    };
    for_outputs(from, tiles, channels, put);
  });
}

template <int kOut>
int64_t Grid<kOut>::pixels_of(Tiles tiles) const {
  int64_t count = 0;
  for_runs(tiles, [&](const Run& run) {
    count += std::min<int64_t>(shape_.p - run.row, kOut) *
             std::min(shape_.q - run.column, run.count * kOut);
  });
  return count;
}

template class Grid<2>;
template class Grid<4>;

}  // namespace brim::cpu::winograd
