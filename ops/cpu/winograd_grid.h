// The tiles of a convolution's batch, and how tensors become their elements: for each element of
// the transform a matrix [tile][channel].
#pragma once

#include <algorithm>

#include "brim/base/bytes.h"
#include "brim/ops/conv_shape.h"
#include "brim/ops/cpu/channel_moments.h"
#include "brim/ops/cpu/winograd_transform.h"

namespace brim::cpu {
class GradientTiles;  // gradient_tiles.h
class InputNorm;      // input_norm.h
}  // namespace brim::cpu

namespace brim::cpu::winograd {

using V = Vector<float>;
inline constexpr int64_t kWidth = kLanes<V>;
inline constexpr int64_t kLine = 64 / sizeof(float);  ///< of a cache

/// Consecutive tiles.
struct Tiles {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

/// Consecutive channels, whole vectors of them.
struct Channels {
  int64_t begin, count;
};

/// Of a tile of kOut x kOut outputs: inputs each way, and the elements after a transform.
template <int kOut>
inline constexpr int kInputs = kOut + kFilter - 1;
template <int kOut>
inline constexpr int kElements = (kOut + kFilter - 1) * (kOut + kFilter - 1);

/// Where the elements of a block's tiles lie: for each element a matrix [tile][channel]. Its rows
/// and the matrices are a line longer than they need be, so that they do not compete for the same
/// lines of a cache.
class Elements {
 public:
  Elements(float* data, int64_t tiles, int64_t channels)
      : data_(data), row_(row(channels)), matrix_(matrix(tiles, channels)) {}

  /// Floats that so many elements of tiles take.
  static int64_t count(int elements, int64_t tiles, int64_t channels) {
    return elements * matrix(tiles, channels);
  }

  int64_t row() const { return row_; }
  int64_t matrix() const { return matrix_; }
  /// Those of the tiles from this one on.
  Elements from(int64_t tile) const {
    Elements rest = *this;
    rest.data_ += tile * row_;
    return rest;
  }
  float* of(int e, int64_t tile = 0) const { return data_ + e * matrix_ + tile * row_; }

 private:
  static int64_t row(int64_t channels) { return channels + kLine; }
  static int64_t matrix(int64_t tiles, int64_t channels) { return tiles * row(channels) + kLine; }

  float* data_;
  int64_t row_, matrix_;
};

/// The tiles of kOut x kOut outputs that cover a batch of them, image by image and row by row.
template <int kOut>
class Grid {
 public:
  explicit Grid(const ConvShape& shape)
      : shape_(shape),
        rows_(ceil_div(shape.p, int64_t{kOut})),
        columns_(ceil_div(shape.q, int64_t{kOut})) {}

  int64_t count() const { return shape_.n * rows_ * columns_; }

  /// Elements of what the tiles see of x, as it is or through a norm. What two tiles share, and
  /// what is transformed again for other filters, is normalised each time: that is less than to
  /// write and read it.
  void transform_x(const float* x, const InputNorm* norm, Tiles tiles, Channels channels,
                   const Elements& to) const;
  /// Elements of their gradients.
  void transform_dy(const float* dy, Tiles tiles, Channels channels, const Elements& to) const;
  /// y from products of elements; `bias` may be null, and so `sums`, to which the channels from
  /// their first on are added.
  void transform_to_y(const Elements& from, Tiles tiles, Channels channels, const float* bias,
                      float* y, const PartSums* sums) const;
  /// The same where y would be the gradient of what a norm gave: `into` makes g of it, and adds
  /// that to `sums`.
  void transform_into(const Elements& from, Tiles tiles, Channels channels,
                      const GradientTiles& into, float* g, float* sums) const;
  /// Pixels of y that the tiles cover.
  int64_t pixels_of(Tiles tiles) const;

 private:
  /// Tiles beside each other.
  struct Run {
    int64_t tile, count;         ///< the first, from the beginning of the block
    int64_t image, row, column;  ///< of its first output
  };

  template <class Body>
  [[gnu::always_inline]] void for_runs(Tiles tiles, const Body& body) const {
    for (int64_t at = tiles.begin; at < tiles.end;) {
      const int64_t column = at % columns_, line = at / columns_;
      const int64_t count = std::min(columns_ - column, tiles.end - at);
      body(Run{at - tiles.begin, count, line / rows_, line % rows_ * kOut, column * kOut});
      at += count;
    }
  }
  /// Tile by tile.
  template <class Body>
  [[gnu::always_inline]] void for_tiles(Tiles tiles, const Body& body) const {
    for_runs(
        tiles, [&](Run run) __attribute__((always_inline)) {
          for (; run.count > 0; --run.count, ++run.tile, run.column += kOut) body(run);
        });
  }
  /// Of the outputs of a tile: is this one inside?
  bool has(const Run& tile, int i, int j) const {
    return tile.row + i < shape_.p && tile.column + j < shape_.q;
  }
  /// Of vectors of x through `read_of(channel)`.
  template <class ReadOf>
  void transform_through(const float* x, Tiles tiles, Channels channels, const ReadOf& read_of,
                         const Elements& to) const;
  /// `body(tile, channel, outputs)` for each tile and vector of channels, from the first on.
  template <class Body>
  [[gnu::always_inline]] void for_outputs(const Elements& from, Tiles tiles, Channels channels,
                                          const Body& body) const;
  /// Are y, or a gradient of its shape, better stored past the caches?
  bool is_streamed(const float* y) const;
  /// Those outputs of a tile that are inside.
  void put_some(const Run& tile, const V (&outputs)[kOut * kOut], int64_t channel, bool streams,
                float* to, const PartSums* sums) const;
  /// Of its first output.
  int64_t offset(const Run& tile) const {
    return ((tile.image * shape_.p + tile.row) * shape_.q + tile.column) * shape_.k;
  }

  ConvShape shape_;
  int64_t rows_, columns_;  ///< of tiles of an image
};

}  // namespace brim::cpu::winograd
