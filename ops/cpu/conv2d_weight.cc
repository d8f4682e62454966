#include "brim/ops/cpu/conv2d_weight.h"

#include <algorithm>
#include <cstring>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/base/range.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/vector.h"

namespace brim::cpu {
namespace {

// 4 x 3 sums, 3 vectors of x and one of dy fill the 16 registers of AVX2.
constexpr int64_t kTileOutputs = 4;
constexpr int64_t kTileTaps = 3;
constexpr int64_t kStripPixels = 256;  // whose sum may be in T; their operands stay in the caches
constexpr int64_t kPartOutputs = 8;    // tiles of outputs that are worked on together
constexpr int64_t kMostChannels = 64;  // beyond, the matrix product reuses more of what it copies
constexpr int64_t kGrain = 1 << 16;    // multiplications that repay a second thread

/// Input positions under `outputs` neighbouring windows.
int64_t reach(int64_t outputs, int64_t taps, int64_t stride, int64_t dilation) {
  return (outputs - 1) * stride + (taps - 1) * dilation + 1;
}

/// How the work is cut: strips of pixels, summed in T, and parts of the gradient, one at a time for
/// each thread.
template <class T>
struct Cut {
  static constexpr int64_t kWidth = kLanes<Vector<T>>;
  int64_t images, rows, columns;        // of dy in a strip
  int64_t x_rows, x_columns;            // of x under them
  int64_t output_tiles, channel_tiles;  // of a group
  int64_t threads;
  int64_t output_parts;  // of a group

  explicit Cut(const ConvShape& z)
      : images(std::clamp<int64_t>(kStripPixels / std::max<int64_t>(z.p * z.q, 1), 1, z.n)),
        rows(std::clamp<int64_t>(kStripPixels / z.q, 1, z.p)),
        columns(std::min(z.q, kStripPixels)),
        x_rows(reach(rows, z.r, z.stride.h, z.dilation.h)),
        x_columns(reach(columns, z.s, z.stride.w, z.dilation.w)),
        output_tiles(ceil_div(z.group_outputs(), kTileOutputs)),
        channel_tiles(ceil_div(z.group_channels(), kWidth)),
        threads(std::clamp<int64_t>(z.pixels() * z.window() * z.k / kGrain, 1, num_threads())),
        output_parts(std::min(output_tiles,
                              ceil_div(ceil_div(output_tiles, kPartOutputs), threads) * threads)) {}
};

/// What each thread works in. Tiles of x are [image][row][column][kWidth], of dy
/// [image][row][column][kTileOutputs], of the sums [r][s][output of the tile][kWidth].
template <class T>
struct Scratch {
  T *x, *dy;
  double* sums;

  Scratch(ScratchCursor& cursor, const ConvShape& z, const Cut<T>& cut) {
    int64_t channels = cut.channel_tiles * Cut<T>::kWidth;
    int64_t outputs = ceil_div(cut.output_tiles, cut.output_parts) * kTileOutputs;
    x = cursor.take<T>(channels * cut.images * cut.x_rows * cut.x_columns);
    dy = cursor.take<T>(outputs * cut.images * cut.rows * cut.columns);
    sums = cursor.take<double>(outputs * channels * z.r * z.s);
  }
};

/// The pixels of one strip.
struct Strip {
  Range images, rows, columns;
  int64_t x_rows, x_columns;

  int64_t pixels() const { return images.size() * rows.size() * columns.size(); }
  int64_t x_pixels() const { return images.size() * x_rows * x_columns; }
};

/// Copies `count` elements, at most kWidth, and fills up with zeros.
template <int64_t kWidth, class T>
inline void copy_padded(const T* from, int64_t count, T* to) {
  if (count == kWidth) {
    std::memcpy(to, from, kWidth * sizeof(T));  // not std::copy_n: GCC calls memmove for it
  } else {
    std::copy_n(from, count, to);
    std::fill(to + count, to + kWidth, T(0));
  }
}

/// One part of the gradient: some tiles of outputs of a group, over all pixels.
template <class T>
struct Part {
  static constexpr int64_t kWidth = Cut<T>::kWidth;
  using V = Vector<T>;

  const ConvShape& z;
  const Cut<T>& cut;
  const Scratch<T>& scratch;
  int64_t group;
  Range outputs;  // in tiles

  int64_t tile_sums() const { return z.r * z.s * kTileOutputs * kWidth; }
  double* sums_of(int64_t output, int64_t channel) const {
    return scratch.sums + (output * cut.channel_tiles + channel) * tile_sums();
  }

  void pack_x(const Strip& strip, const T* x) const {
    int64_t left = strip.columns.begin * z.stride.w - z.padding.w;
    Range inside{std::clamp<int64_t>(-left, 0, strip.x_columns),
                 std::clamp<int64_t>(z.w - left, 0, strip.x_columns)};
    T* to = scratch.x;
    for (int64_t image = strip.images.begin; image < strip.images.end; ++image)
      for (int64_t i = 0; i < strip.x_rows; ++i, to += strip.x_columns * kWidth) {
        int64_t row = strip.rows.begin * z.stride.h - z.padding.h + i;
        bool exists = row >= 0 && row < z.h && inside.begin < inside.end;
        const T* from = x + ((image * z.h + row) * z.w + left) * z.c + group * z.group_channels();
        pack_row(exists ? from : nullptr, strip, inside, to);
      }
  }

  /// One row of x, of which only the columns `inside` exist: none where `from` is null.
  void pack_row(const T* from, const Strip& strip, Range inside, T* to) const {
    int64_t tile_size = strip.x_pixels() * kWidth, channels = z.group_channels();
    for (int64_t c = 0; c < channels; c += kWidth, to += tile_size) {
      if (from == nullptr) {
        std::fill_n(to, strip.x_columns * kWidth, T(0));
        continue;
      }
      std::fill_n(to, inside.begin * kWidth, T(0));
      for (int64_t j = inside.begin; j < inside.end; ++j)
        copy_padded<kWidth>(from + j * z.c + c, std::min(kWidth, channels - c), to + j * kWidth);
      std::fill(to + inside.end * kWidth, to + strip.x_columns * kWidth, T(0));
    }
  }

  void pack_dy(const Strip& strip, const T* dy) const {
    int64_t first = outputs.begin * kTileOutputs, tile_size = strip.pixels() * kTileOutputs;
    int64_t count = std::min(outputs.size() * kTileOutputs, z.group_outputs() - first);
    T* to = scratch.dy;
    for (int64_t image = strip.images.begin; image < strip.images.end; ++image)
      for (int64_t row = strip.rows.begin; row < strip.rows.end; ++row) {
        const T* from = dy + ((image * z.p + row) * z.q + strip.columns.begin) * z.k +
                        group * z.group_outputs() + first;
        for (int64_t j = 0; j < strip.columns.size(); ++j, from += z.k, to += kTileOutputs)
          for (int64_t k = 0; k < count; k += kTileOutputs)
            copy_padded<kTileOutputs>(from + k, std::min(kTileOutputs, count - k),
                                      to + k / kTileOutputs * tile_size);
      }
  }

  /// Adds a strip to a tile's sums for kTaps neighbouring taps. `x` is under the first.
  template <int kTaps>
  void multiply(const Strip& strip, const T* x, const T* dy, double* to) const {
    const int64_t step = z.stride.w * kWidth, tap = z.dilation.w * kWidth;
    const int64_t row_step = z.stride.h * strip.x_columns * kWidth;
    V sums[kTileOutputs][kTaps] = {};
    for (int64_t image = 0; image < strip.images.size(); ++image)
      for (int64_t i = 0; i < strip.rows.size(); ++i) {
        const T* in = x + image * strip.x_rows * strip.x_columns * kWidth + i * row_step;
        for (int64_t j = 0; j < strip.columns.size(); ++j, in += step, dy += kTileOutputs) {
          V taps[kTaps];
          for (int t = 0; t < kTaps; ++t) taps[t] = load<V>(in + t * tap);
          for (int k = 0; k < kTileOutputs; ++k) {
            V gradient = broadcast<V>(dy[k]);
            for (int t = 0; t < kTaps; ++t) sums[k][t] = fma(gradient, taps[t], sums[k][t]);
          }
        }
      }
    for (int t = 0; t < kTaps; ++t)
      for (int k = 0; k < kTileOutputs; ++k, to += kWidth) {
        T values[kWidth];
        store(values, sums[k][t]);
        for (int64_t c = 0; c < kWidth; ++c) to[c] += static_cast<double>(values[c]);
      }
  }

  void multiply_tile(const Strip& strip, int64_t output, int64_t channel) const {
    const T* x = scratch.x + channel * strip.x_pixels() * kWidth;
    const T* dy = scratch.dy + output * strip.pixels() * kTileOutputs;
    double* sums = sums_of(output, channel);
    for (int64_t r = 0; r < z.r; ++r)
      for (int64_t s = 0; s < z.s; s += kTileTaps) {
        const T* from = x + (r * z.dilation.h * strip.x_columns + s * z.dilation.w) * kWidth;
        double* to = sums + (r * z.s + s) * kTileOutputs * kWidth;
        switch (std::min(kTileTaps, z.s - s)) {
          case 1:
            multiply<1>(strip, from, dy, to);
            break;
          case 2:
            multiply<2>(strip, from, dy, to);
            break;
          default:
            multiply<3>(strip, from, dy, to);
        }
      }
  }

  void add(const Strip& strip, const T* x, const T* dy) const {
    pack_x(strip, x);
    pack_dy(strip, dy);
    for (int64_t channel = 0; channel < cut.channel_tiles; ++channel)
      for (int64_t output = 0; output < outputs.size(); ++output)
        multiply_tile(strip, output, channel);
  }

  void run(const T* x, const T* dy, T* dweight) const {
    std::fill_n(scratch.sums, outputs.size() * cut.channel_tiles * tile_sums(), 0.0);
    for (int64_t n = 0; n < z.n; n += cut.images)
      for (int64_t i = 0; i < z.p; i += cut.rows)
        for (int64_t j = 0; j < z.q; j += cut.columns) {
          Strip strip{{n, std::min(n + cut.images, z.n)},
                      {i, std::min(i + cut.rows, z.p)},
                      {j, std::min(j + cut.columns, z.q)}};
          strip.x_rows = reach(strip.rows.size(), z.r, z.stride.h, z.dilation.h);
          strip.x_columns = reach(strip.columns.size(), z.s, z.stride.w, z.dilation.w);
          add(strip, x, dy);
        }
    for (int64_t output = outputs.begin * kTileOutputs;
         output < std::min(outputs.end * kTileOutputs, z.group_outputs()); ++output)
      write(output, dweight + (group * z.group_outputs() + output) * z.window());
  }

  /// The gradient of one output's weights, [r][s][channels of the group].
  void write(int64_t output, T* weights) const {
    int64_t tile = output / kTileOutputs - outputs.begin;
    for (int64_t tap = 0; tap < z.r * z.s; ++tap)
      for (int64_t channel = 0; channel < cut.channel_tiles; ++channel) {
        const double* from =
            sums_of(tile, channel) + (tap * kTileOutputs + output % kTileOutputs) * kWidth;
        int64_t first = channel * kWidth;
        T* to = weights + tap * z.group_channels() + first;
        int64_t count = std::min(kWidth, z.group_channels() - first);
        for (int64_t c = 0; c < count; ++c) to[c] = static_cast<T>(from[c]);
      }
  }
};

}  // namespace

template <class T>
bool has_weight_tiles(const ConvShape& shape) {
  return shape.r * shape.s > 1 && shape.group_channels() >= Cut<T>::kWidth &&
         shape.group_channels() <= kMostChannels && shape.pixels() * shape.k > 0;
}

template <class T>
int64_t conv2d_tiled_backward_weight_scratch(const ConvShape& shape) {
  Cut<T> cut(shape);
  ScratchCursor cursor(nullptr);
  for (int64_t thread = 0; thread < cut.threads; ++thread) Scratch<T>(cursor, shape, cut);
  return cursor.used();
}

template <class T>
void conv2d_tiled_backward_weight(const ConvShape& shape, const T* x, const T* dy, T* dweight,
                                  void* scratch) {
  Cut<T> cut(shape);
  int64_t parts = shape.groups * cut.output_parts;
  parallel_pieces(parts, cut.threads, [&](int64_t thread, int64_t begin, int64_t end) {
    ScratchCursor cursor(scratch);
    for (int64_t i = 0; i < thread; ++i) Scratch<T>(cursor, shape, cut);
    Scratch<T> mine(cursor, shape, cut);
    for (int64_t i = begin; i < end; ++i) {
      int64_t piece = i % cut.output_parts;
      Range outputs{cut.output_tiles * piece / cut.output_parts,
                    cut.output_tiles * (piece + 1) / cut.output_parts};
      Part<T>{shape, cut, mine, i / cut.output_parts, outputs}.run(x, dy, dweight);
    }
  });
}

#define BRIM_INSTANTIATE(T)                                                   \
  template bool has_weight_tiles<T>(const ConvShape&);                        \
  template int64_t conv2d_tiled_backward_weight_scratch<T>(const ConvShape&); \
  template void conv2d_tiled_backward_weight(const ConvShape&, const T*, const T*, T*, void*);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
#undef BRIM_INSTANTIATE

}  // namespace brim::cpu
