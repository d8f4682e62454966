#include "brim/ops/cpu/winograd_grid.h"

#include "brim/ops/cpu/channel_rows.h"

namespace brim::cpu::winograd {
namespace {

/// Adds the outputs of a tile of which some may be outside.
template <int kOutputs>
void add_tile(const PartSums& sums, const V (&outputs)[kOutputs], int count, int64_t channel,
              bool is_first) {
  if (count == kOutputs) return sums.add(outputs, channel, is_first);
  for (int i = 0; i < count; ++i) {
    const V one[1] = {outputs[i]};
    sums.add(one, channel, is_first && i == 0);
  }
}

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

  /// Column `at` of them, zero outside, transformed from top to bottom.
  void transform_column(int64_t at, int64_t channel, V (&to)[kIn]) const {
    const bool is_inside = at >= 0 && at < width;
    const int64_t offset = at * channels + channel;
    V d[kIn];
    if (is_inside && are_inside)
      for (int i = 0; i < kIn; ++i) d[i] = load<V>(lines[i] + offset);
    else
      for (int i = 0; i < kIn; ++i)
        d[i] = is_inside && lines[i] != nullptr ? load<V>(lines[i] + offset) : V{};
    transform_input(d, to);
  }
};

}  // namespace

template <int kOut>
void Grid<kOut>::transform_x(const float* x, Tiles tiles, Channels channels,
                             const Elements& to) const {
  constexpr int kIn = kInputs<kOut>;
  const int64_t matrix = to.matrix();
  for_runs(tiles, [&, matrix](const Run& run) {
    const float* image = x + run.image * shape_.h * shape_.w * shape_.c + channels.begin;
    const Lines<kIn> lines(image, run.row - shape_.padding.h, shape_);
    for (int64_t c = 0; c < channels.count; c += kWidth) {
      // Columns in a ring: the next tile has the last two again.
      constexpr int kRing = 8, kShared = kIn - kOut;
      V columns[kRing][kIn];
      const int64_t first = run.column - shape_.padding.w;
      for (int j = 0; j < kShared; ++j) lines.transform_column(first + j, c, columns[j]);
      for (int64_t tile = 0; tile < run.count; ++tile) {
        const int64_t at = tile * kOut;
        for (int64_t j = at + kShared; j < at + kIn; ++j)
          lines.transform_column(first + j, c, columns[j % kRing]);
        float* element = to.of(0, run.tile + tile) + c;
        for (int i = 0; i < kIn; ++i) {
          V d[kIn], elements[kIn];
          for (int j = 0; j < kIn; ++j) d[j] = columns[(at + j) % kRing][i];
          transform_input(d, elements);
          for (int j = 0; j < kIn; ++j, element += matrix) store(element, elements[j]);
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
      V elements[kIn][kIn];
      if (is_whole)
        transform_square<kOut, kIn>(transform_output_gradient, inside, elements);
      else
        transform_square<kOut, kIn>(transform_output_gradient, any, elements);
      float* element = to.of(0, tile.tile) + k;
#pragma GCC unroll 8
      for (int i = 0; i < kIn; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < kIn; ++j, element += matrix) store(element, elements[i][j]);
    }
  });
}

template <int kOut>
void Grid<kOut>::transform_to_y(const Elements& from, Tiles tiles, Channels channels,
                                const float* bias, float* y, const PartSums* sums) const {
  constexpr int kIn = kInputs<kOut>;
  const int64_t matrix = from.matrix(), across = shape_.k, down = shape_.q * shape_.k;
  // Lines that are read for a tile's stores alone are waited for, unlike those of long rows.
  constexpr int64_t kLarge = int64_t{4} << 20;
  const bool streams = worth_streaming(y, shape_.pixels() * shape_.k, kLarge);
  for_tiles(tiles, [&, matrix, across, down, streams](const Run& tile) {
    const bool is_whole = has(tile, kOut - 1, kOut - 1);
    float* to = y + offset(tile) + channels.begin;
    for (int64_t k = 0; k < channels.count; k += kWidth, to += kWidth) {
      const float* elements = from.of(0, tile.tile) + k;
      V outputs[kOut][kOut];
      transform_square<kIn, kOut>(
          transform_to_output,
          [&](int i, int j) { return load<V>(elements + (i * kIn + j) * matrix); }, outputs);
      const V added = bias == nullptr ? V{} : load<V>(bias + channels.begin + k);
      V inside[kOut * kOut];
      int count = 0;
      for (int i = 0; i < kOut; ++i)
        for (int j = 0; j < kOut; ++j)
          if (is_whole || has(tile, i, j)) {
            const V value = inside[count++] = outputs[i][j] + added;
            if (streams)
              stream(to + i * down + j * across, value);
            else
              store(to + i * down + j * across, value);
          }
      if (sums != nullptr) add_tile(*sums, inside, count, k, tile.tile == 0);
    }
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
