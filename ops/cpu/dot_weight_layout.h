// How the weight gradient by dot products of pairs (ops/cpu/dot_weight.h) is cut: over pixels into
// units that are copied to the caches and pieces with sums of their own, which depend on the sizes
// alone, and over the gradient into parts for threads, which change no sum; and where it is copied.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/base/bytes.h"
#include "brim/base/range.h"
#include "brim/core/launch.h"
#include "brim/ops/conv_shape.h"
#include "brim/ops/cpu/affordable.h"
#include "brim/ops/cpu/bfloat16_pairs.h"

namespace brim::cpu::dots {

inline constexpr int64_t kWidth = 16, kMostVectors = 2, kOutputs = 8;  // of a tile

/// Some pairs of images, and some rows of dy of each.
struct Unit {
  Range pairs, rows;
};

struct Cut {
  static constexpr int64_t kPixels = 800;  ///< of a unit: of pairs of images; or one row of them

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
  static constexpr int64_t kMostOfPiece = 64 << 10;  ///< numbers of a gradient that is small
  static constexpr int64_t kPieces = 8;

  /// At most `most`, and all units alike but the last.
  static int64_t share(int64_t all, int64_t most) { return ceil_div(all, ceil_div(all, most)); }
};

/// Some of the gradient: what one thread adds up at a time, of a piece.
struct Part {
  Range panels, tiles;
};

/// Parts in a grid: those that keep so many threads busy for the least time.
struct Parts {
  int64_t of_panels = 1, of_tiles = 1;
  int64_t panels, tiles;  ///< of all parts

  Parts(const Cut& cut, int64_t threads) : panels(cut.panels), tiles(cut.tiles) {
    const auto time = [&](int64_t a, int64_t b) {
      constexpr int64_t kCopy = 4;  // products that take as long as copying a number
      const int64_t x = ceil_div(panels, a) * kMostVectors * kWidth;
      const int64_t dy = ceil_div(tiles, b) * kOutputs;
      return ceil_div(cut.pieces * a * b, threads) * (x * dy + kCopy * (x + dy));
    };
    for (int64_t a = 1; a <= std::min(threads, panels); ++a)
      for (int64_t b = 1; b <= std::min(threads / a, tiles); ++b)
        if (time(a, b) < time(of_panels, of_tiles)) of_panels = a, of_tiles = b;
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

/// Where a thread copies the source of a unit to.
struct Copies {
  Twice *x, *dy;
  int64_t panel_step, tile_step;  ///< from one to the next

  Copies(const Cut& cut, const Parts& parts, ScratchCursor& cursor) {
    // A line more, so that panels do not compete for the same lines of a cache.
    const int64_t panel = std::min(cut.vectors, kMostVectors) * kWidth;
    panel_step = cut.pairs * cut.x_rows(cut.rows) * cut.x_columns * panel + kWidth;
    tile_step = cut.pairs * cut.rows * cut.columns * kOutputs + kWidth;
    x = cursor.take<Twice>(parts.most_panels() * panel_step);
    dy = cursor.take<Twice>(parts.most_tiles() * tile_step);
  }
};

/// The scratch of so many threads.
struct Layout {
  Cut cut;
  Parts parts;
  int64_t threads;  ///< that have work
  float* sums;      ///< [K,R,S,C] of all pieces but the first
  int64_t bytes;

  Layout(const ConvShape& z, int64_t of_threads, void* scratch)
      : cut(z), parts(cut, of_threads), threads(std::min(of_threads, jobs())) {
    ScratchCursor cursor(scratch);
    sums = cursor.take<float>((cut.pieces - 1) * z.k * z.window());
    copies_ = cursor.take<char>(threads * bytes_of_copies());
    bytes = cursor.used();
  }

  /// Parts of pieces.
  int64_t jobs() const { return cut.pieces * parts.count(); }
  Copies copies_of(int64_t thread) const {
    ScratchCursor cursor(copies_ + thread * bytes_of_copies());
    return {cut, parts, cursor};
  }

 private:
  int64_t bytes_of_copies() const {
    ScratchCursor cursor(nullptr);
    Copies(cut, parts, cursor);
    return cursor.used();
  }

  char* copies_;
};

/// Is it possible and fast, where the processor has the products?
inline bool suits(const ConvShape& z) {
  constexpr int64_t kFewestImages = 8, kFewestPixels = 64, kMostPadding = 4096;
  // Of large windows that overlap, in images that are not small, a library is 3 to 7% faster.
  constexpr int64_t kLargeWindow = 9 * 128, kSmallImage = 64;
  const bool overlap = z.stride == Pair(1) && z.r * z.s > 1;
  if (overlap && z.window() >= kLargeWindow && z.p * z.q > kSmallImage) return false;
  return z.groups == 1 && z.n >= kFewestImages && z.pixels() >= kFewestPixels &&
         z.q <= Cut::kPixels && std::max(z.padding.h, z.padding.w) <= kMostPadding &&
         std::min(z.c, z.k) >= kWidth && z.window() > 0 &&
         is_affordable(z, Layout(z, kThreadsOfChoice, nullptr).bytes);
}

}  // namespace brim::cpu::dots
