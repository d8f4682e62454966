// The sums of ops/cpu/narrow_weight.h, some pixels at a time: for that kernel, or for one that has
// the pixels in a cache for its own sake.
#pragma once

#include <algorithm>
#include <type_traits>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/conv_shape.h"
#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/tile_product.h"
#include "brim/ops/cpu/vector.h"
#include "brim/ops/cpu/window_rows.h"

namespace brim::cpu::narrow {

// A tile's sums, with a vector of each column of it and a number, fill the registers.
inline constexpr int kNarrow = kVectorBytes == 64 ? 8 : 4;
inline constexpr int kVectors = 3;
inline constexpr int64_t kMostNarrow = 64;

/// Which of x and dy has how many numbers for a pixel.
struct Sides {
  bool by_windows;  ///< the narrow one is the window under the pixel, which has to be copied from x
  bool x_is_wide;
  int64_t wide, narrow;  ///< of windows with zeros behind them, to fill tiles

  explicit Sides(const ConvShape& shape)
      : by_windows(!shape.is_pointwise()),
        x_is_wide(!by_windows && shape.c > shape.k),
        wide(x_is_wide ? shape.c : shape.k),
        narrow(x_is_wide    ? shape.k
               : by_windows ? round_up(shape.window(), kNarrow)
                            : shape.c) {}
};

/// How a tile takes pixels: one by one, in `Compute<S>`.
template <class S>
struct OneByOne {
  using Number = Compute<S>;  ///< what a vector of the wide side is multiplied by
  using Sum = Vector<Number>;
  using Column = Sum;
  static constexpr int64_t kPixels = 1;

  static Column column(const S* wide, int64_t, bool) { return load<Column>(wide); }
  static Sum add(Sum sum, Number number, Column column) {
    return fma(broadcast<Column>(number), column, sum);
  }
  /// The narrow side of some pixels: widened once for all vectors that it meets.
  static const Number* numbers(const S* narrow, int64_t pixels, int64_t width, Number* room) {
    if constexpr (std::is_same_v<S, Number>) {
      return narrow;
    } else {
      convert_row(room, narrow, pixels * width);
      return room;
    }
  }
};

/// S: of x and dy. Sums over kBlock pixels are in `Compute<S>`, beyond in double, and those of
/// pieces of the pixels apart.
template <class S, class By>
class NarrowWeight {
  using T = Compute<S>;
  using Number = typename By::Number;

 public:
  /// At most so many pieces: how many is a function of the shape. x goes through `norm`, if it is
  /// not null: of float32, and one by one.
  NarrowWeight(const ConvShape& shape, const InputNorm* norm, int64_t most_pieces,
               ScratchCursor& scratch)
      : shape_(shape),
        sides_(shape),
        wide_(sides_.wide),
        narrow_(sides_.narrow),
        pieces_(std::clamp<int64_t>(shape.pixels() / kPixelsOfPiece, 1, most_pieces)),
        norm_(norm),
        totals_(scratch.take<double>(pieces_ * wide_ * narrow_)),
        rooms_(scratch.take<S>(norm == nullptr ? 0 : num_threads() * kBlock * shape.c)) {
    check(wide_ % kLanes<V> == 0 && narrow_ % kNarrow == 0, "both sides fill tiles");
  }

  int64_t pieces() const { return pieces_; }

  void clear(int64_t piece) const { std::fill_n(of_piece(piece, 0), wide_ * narrow_, 0.0); }

  /// Pixels [begin, end) to the sums of a piece. With a norm, no other thread has this number.
  void add(int64_t thread, int64_t piece, const S* x, const S* dy, int64_t begin,
           int64_t end) const {
    double* totals = of_piece(piece, 0);
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t pixels = std::min(kBlock, end - at);
      Number room[kBlock / By::kPixels * kMostNarrow];
      const S* of_dy = dy + at * shape_.k;
      if (sides_.by_windows) {
        add_block({of_dy, of_dy}, windows(x, at, pixels, room), pixels, totals);
        continue;
      }
      const S *in_memory = x + at * shape_.c, *of_x = normalized(in_memory, pixels, thread);
      if (sides_.x_is_wide)
        add_block({of_x, in_memory}, By::numbers(of_dy, pixels, narrow_, room), pixels, totals);
      else
        add_block({of_dy, of_dy}, By::numbers(of_x, pixels, narrow_, room), pixels, totals);
    }
  }

  /// Of all pieces.
  void finish(T* dweight) const {
    constexpr int64_t kGrain = 16384;  // numbers whose sum repays a thread
    // Not those of zeros behind windows.
    const int64_t rows = sides_.x_is_wide ? narrow_ : shape_.window();
    parallel_for(rows, kGrain / (wide_ * pieces_) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) add_pieces(n, dweight);
    });
  }

 private:
  using V = Vector<T>;
  static constexpr int64_t kPixelsOfPiece = 256;  ///< which repay sums of their own
  /// Pixels whose sums are in T, and which the caches keep.
  static constexpr int64_t kBlock = sizeof(S) == 2 ? 128 : 64;

  /// Rows of the wide side, and where they came from: what follows there is fetched ahead.
  struct Wide {
    const S *rows, *in_memory;
  };

  /// The windows of pixels from `at` on.
  const Number* windows(const S* x, int64_t at, int64_t pixels, Number* room) const {
    if constexpr (std::is_same_v<S, Number>)
      WindowRows<S>(shape_, narrow_).copy(x, at, pixels, room);
    return room;
  }
  /// Pixels of x, where they lie or in the room of a thread.
  const S* normalized(const S* from, int64_t pixels, int64_t thread) const {
    if constexpr (std::is_same_v<S, float>)
      if (norm_ != nullptr) {
        S* room = rooms_ + thread * kBlock * shape_.c;
        norm_->apply(from, pixels, room);
        return room;
      }
    return from;
  }

  double* of_piece(int64_t piece, int64_t n) const {
    return totals_ + (piece * narrow_ + n) * wide_;
  }

  void add_pieces(int64_t n, T* dweight) const {
    double* sums = of_piece(0, n);
    for (int64_t piece = 1; piece < pieces_; ++piece) {
      const double* more = of_piece(piece, n);
      for (int64_t w = 0; w < wide_; ++w) sums[w] += more[w];
    }
    const int64_t window = shape_.window();
    for (int64_t w = 0; w < wide_; ++w)
      dweight[sides_.x_is_wide ? n * wide_ + w : w * window + n] = static_cast<T>(sums[w]);
  }

  void add_block(const Wide& wide, const Number* numbers, int64_t pixels, double* totals) const {
    for (int64_t w = 0; w < wide_;) {
      const int64_t vectors = vectors_of_tile((wide_ - w) / kLanes<V>);
      for (int64_t n = 0; n < narrow_; n += kNarrow) {
        double* to = totals + n * wide_ + w;
        if (vectors == kVectors)
          add_tile<kVectors>(wide, w, numbers + n, pixels, to);
        else if (vectors == 2)
          add_tile<2>(wide, w, numbers + n, pixels, to);
        else
          add_tile<1>(wide, w, numbers + n, pixels, to);
      }
      w += vectors * kLanes<V>;
    }
  }
  /// One alone keeps too few sums for additions to follow each other at once.
  static int64_t vectors_of_tile(int64_t left) {
    return left == kVectors + 1 ? 2 : std::min<int64_t>(left, kVectors);
  }

  template <int kV>
  void add_tile(const Wide& rows, int64_t column, const Number* numbers, int64_t pixels,
                double* totals) const {
    const S *wide = rows.rows + column, *ahead = rows.in_memory + column + kBlock * wide_;
    V sums[kNarrow][kV] = {};
    for (int64_t m = 0; m < pixels; m += By::kPixels) {
      // What the next block wants, while this one has the time.
      for (int64_t next = 0; next < By::kPixels; ++next)
        prefetch(ahead + next * wide_, kV * kLanes<V>);
      typename By::Column columns[kV];
      tiles::unrolled<1, kV>([&](int, int v) {
        columns[v] = By::column(wide + v * kLanes<V>, wide_, m + 1 < pixels);
      });
      tiles::unrolled<kNarrow, kV>(
          [&](int n, int v) { sums[n][v] = By::add(sums[n][v], numbers[n], columns[v]); });
      wide += By::kPixels * wide_;
      ahead += By::kPixels * wide_;
      numbers += narrow_;
    }
    T stored[kNarrow][kV * kLanes<V>];
    tiles::unrolled<kNarrow, kV>(
        [&](int n, int v) { store(stored[n] + v * kLanes<V>, sums[n][v]); });
    for (int n = 0; n < kNarrow; ++n)
      for (int i = 0; i < kV * kLanes<V>; ++i)
        totals[n * wide_ + i] += static_cast<double>(stored[n][i]);
  }

  const ConvShape& shape_;
  Sides sides_;
  int64_t wide_, narrow_, pieces_;
  const InputNorm* norm_;
  double* totals_;  // [pieces][narrow][wide]
  S* rooms_;        // [threads][kBlock][channels]
};

}  // namespace brim::cpu::narrow
