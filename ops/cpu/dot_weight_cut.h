// How the weight gradient by dot products of pairs (ops/cpu/dot_weight.h) is cut: over pixels into
// units that are copied to the caches and pieces with sums of their own, which depend on the sizes
// alone, and over the gradient into parts for threads, which change no sum.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/base/bytes.h"
#include "brim/ops/conv_shape.h"

namespace brim::cpu::dots {

inline constexpr int64_t kWidth = 16, kMostVectors = 2, kOutputs = 8;  // of a tile

/// Some indices.
struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

/// Some pairs of images, and some rows of dy of each.
struct Unit {
  Range pairs, rows;
};

struct Cut {
  int64_t vectors, panels, tiles;  ///< the first two of channels, the last of outputs
  int64_t step_h, step_w;          ///< between pixels of x that are copied
  int64_t stride_h, stride_w;      ///< of the windows over what was copied
  int64_t reach_h;                 ///< rows of it that a window sees beyond its first
  int64_t x_columns;
  int64_t columns;  ///< of dy
  int64_t all_pairs, all_rows;
  int64_t pairs, rows;   ///< of a unit
  int64_t bands, units;  ///< units of the same images, and of all
  int64_t pieces;        ///< of units

  explicit Cut(const ConvShape& z)
      : vectors(ceil_div(z.c, kWidth)),
        panels(ceil_div(vectors, kMostVectors)),
        tiles(ceil_div(z.k, kOutputs)),
        columns(z.q),
        all_pairs(ceil_div(z.n, 2)),
        all_rows(z.p) {
    // Of a window of one pixel the others are left out.
    const bool one_tap = z.r == 1 && z.s == 1;
    step_h = one_tap ? z.stride.h : 1, step_w = one_tap ? z.stride.w : 1;
    stride_h = z.stride.h / step_h, stride_w = z.stride.w / step_w;
    reach_h = (z.r - 1) * z.dilation.h;
    x_columns = (z.q - 1) * stride_w + (z.s - 1) * z.dilation.w + 1;
    pairs = share(all_pairs, std::max<int64_t>(kPixels / (z.p * z.q), 1));
    rows = share(z.p, std::max<int64_t>(kPixels / z.q, 1));
    bands = ceil_div(z.p, rows);
    units = ceil_div(all_pairs, pairs) * bands;
    pieces = z.k * z.window() <= kMostOfPiece ? std::min(units, kPieces) : 1;
  }

  Unit unit(int64_t i) const {
    const int64_t pair = i / bands * pairs, row = i % bands * rows;
    return {{pair, std::min(pair + pairs, all_pairs)}, {row, std::min(row + rows, all_rows)}};
  }
  /// Of x under so many of dy.
  int64_t x_rows(int64_t of_dy) const { return (of_dy - 1) * stride_h + reach_h + 1; }
  int64_t first_vector(int64_t panel) const { return vectors * panel / panels; }

 private:
  static constexpr int64_t kPixels = 800;            ///< of a unit: of pairs of images
  static constexpr int64_t kMostOfPiece = 64 << 10;  ///< numbers of a gradient that is small
  static constexpr int64_t kPieces = 8;

  /// At most `most`, and all units alike.
  static int64_t share(int64_t all, int64_t most) { return ceil_div(all, ceil_div(all, most)); }
};

/// Some of the gradient: what one thread adds up at a time, of a piece.
struct Part {
  Range panels, tiles;
};

/// Parts in a grid.
struct Parts {
  int64_t of_panels = 1, of_tiles = 1;
  int64_t panels, tiles;  ///< of all parts

  /// At most so many, each as small as can be, of these the ones that copy least.
  Parts(const Cut& cut, int64_t count) : panels(cut.panels), tiles(cut.tiles) {
    const auto cost = [&](int64_t a, int64_t b) {
      const int64_t x = ceil_div(panels, a) * kMostVectors * kWidth,
                    dy = ceil_div(tiles, b) * kOutputs;
      return x * dy + x + dy;
    };
    for (int64_t a = 1; a <= std::min(count, panels); ++a) {
      const int64_t b = std::min(count / a, tiles);
      if (cost(a, b) < cost(of_panels, of_tiles)) of_panels = a, of_tiles = b;
    }
  }

  int64_t count() const { return of_panels * of_tiles; }
  int64_t most_panels() const { return ceil_div(panels, of_panels); }
  int64_t most_tiles() const { return ceil_div(tiles, of_tiles); }
  Part part(int64_t i) const {
    const int64_t a = i / of_tiles, b = i % of_tiles;
    return {{panels * a / of_panels, panels * (a + 1) / of_panels},
            {tiles * b / of_tiles, tiles * (b + 1) / of_tiles}};
  }
};

}  // namespace brim::cpu::dots
