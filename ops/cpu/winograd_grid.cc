#include "brim/ops/cpu/winograd_grid.h"

namespace brim::cpu::winograd {
namespace {

/// Four rows of an image; null above it and below.
struct Lines {
  const float* lines[kIn];
  int64_t width, channels;

  /// Column `at` of them, zero outside, transformed from top to bottom.
  void transform_column(int64_t at, int64_t channel, V (&to)[kIn]) const {
    const bool inside = at >= 0 && at < width;
    V d[kIn];
    for (int i = 0; i < kIn; ++i)
      d[i] = inside && lines[i] != nullptr ? load<V>(lines[i] + at * channels + channel) : V{};
    transform_input(d, to);
  }
};

/// Adds the outputs of a tile of which some may be outside.
void add_tile(const PartSums& sums, const V (&outputs)[kOut * kOut], int count, int64_t channel,
              bool is_first) {
  if (count == kOut * kOut) return sums.add(outputs, channel, is_first);
  for (int i = 0; i < count; ++i) {
    const V one[1] = {outputs[i]};
    sums.add(one, channel, is_first && i == 0);
  }
}

}  // namespace

void Grid::transform_x(const float* x, Tiles tiles, Channels channels, const Elements& to) const {
  for_runs(tiles, [&](const Run& run) {
    Lines lines{{}, shape_.w, shape_.c};
    for (int i = 0; i < kIn; ++i) {
      const int64_t at = run.row - shape_.padding.h + i;
      if (at >= 0 && at < shape_.h)
        lines.lines[i] = x + (run.image * shape_.h + at) * shape_.w * shape_.c + channels.begin;
    }
    for (int64_t c = 0; c < channels.count; c += kWidth) {
      // Columns, of which the next tile has the last two again.
      int64_t at = run.column - shape_.padding.w;
      V columns[kIn][kIn];
      for (int j = 0; j < kIn - kOut; ++j) lines.transform_column(at++, c, columns[j]);
      for (int64_t tile = run.tile; tile < run.tile + run.count; ++tile) {
        for (int j = kIn - kOut; j < kIn; ++j) lines.transform_column(at++, c, columns[j]);
        for (int i = 0; i < kIn; ++i) {
          V d[kIn], elements[kIn];
          for (int j = 0; j < kIn; ++j) d[j] = columns[j][i];
          transform_input(d, elements);
          for (int j = 0; j < kIn; ++j) store(to.of(i * kIn + j, tile) + c, elements[j]);
          for (int j = 0; j < kIn - kOut; ++j) columns[j][i] = columns[j + kOut][i];
        }
      }
    }
  });
}

void Grid::transform_dy(const float* dy, Tiles tiles, Channels channels, const Elements& to) const {
  for_tiles(tiles, [&](const Run& tile) {
    for (int64_t k = 0; k < channels.count; k += kWidth) {
      V outputs[kOut][kOut], elements[kIn][kIn];
      for (int i = 0; i < kOut; ++i)
        for (int j = 0; j < kOut; ++j)
          outputs[i][j] =
              has(tile, i, j) ? load<V>(dy + offset(tile, i, j) + channels.begin + k) : V{};
      transform_square<kOut, kIn>(transform_output_gradient, outputs, elements);
      for (int e = 0; e < kElements; ++e)
        store(to.of(e, tile.tile) + k, elements[e / kIn][e % kIn]);
    }
  });
}

void Grid::transform_to_y(const Elements& from, Tiles tiles, Channels channels, const float* bias,
                          float* y, const PartSums* sums) const {
  for_tiles(tiles, [&](const Run& tile) {
    for (int64_t k = 0; k < channels.count; k += kWidth) {
      V elements[kIn][kIn], outputs[kOut][kOut];
      for (int e = 0; e < kElements; ++e)
        elements[e / kIn][e % kIn] = load<V>(from.of(e, tile.tile) + k);
      transform_square<kIn, kOut>(transform_to_output, elements, outputs);
      const V added = bias == nullptr ? V{} : load<V>(bias + channels.begin + k);
      V inside[kOut * kOut];
      int count = 0;
      for (int i = 0; i < kOut; ++i)
        for (int j = 0; j < kOut; ++j)
          if (has(tile, i, j)) {
            inside[count] = outputs[i][j] + added;
            store(y + offset(tile, i, j) + channels.begin + k, inside[count++]);
          }
      if (sums != nullptr) add_tile(*sums, inside, count, k, tile.tile == 0);
    }
  });
}

int64_t Grid::pixels_of(Tiles tiles) const {
  int64_t count = 0;
  for_runs(tiles, [&](const Run& run) {
    count += std::min<int64_t>(shape_.p - run.row, kOut) *
             std::min(shape_.q - run.column, run.count * kOut);
  });
  return count;
}

}  // namespace brim::cpu::winograd
