#include "brim/ops/cpu/narrow_weight.h"

#include <algorithm>
#include <type_traits>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/bfloat16_pairs.h"
#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/tile_product.h"
#include "brim/ops/cpu/vector.h"
#include "brim/ops/cpu/window_rows.h"
#include "brim/ops/onednn.h"

namespace brim::cpu {
namespace {

// A tile's sums, with a vector of each column of it and a number, fill the registers.
constexpr int kNarrow = kVectorBytes == 64 ? 8 : 4;
constexpr int kVectors = 3;
constexpr int64_t kMostNarrow = 64;

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

#ifdef __AVX512BW__
/// Two by two (ops/cpu/bfloat16_pairs.h).
struct TwoByTwo {
  using Number = uint32_t;  ///< of two pixels, the first one's in the lower half
  using Sum = Vector<float>;
  using Column = Pairs;
  static constexpr int64_t kPixels = 2;

  /// The vectors of two neighbouring pixels, `step` apart; zeros where there is no second one.
  static Column column(const BFloat16* wide, int64_t step, bool has_second) {
    const auto of = [](const BFloat16* from) {
      return _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    };
    return first_pairs(of(wide), has_second ? of(wide + step) : __m512i{});
  }
  static Sum add(Sum sum, Number number, Column column) {
    return add_products(sum, number - Column{}, column);
  }
  static const Number* numbers(const BFloat16* narrow, int64_t pixels, int64_t width,
                               Number* room) {
    for (int64_t m = 0; m < pixels; m += 2)
      for (int64_t n = 0; n < width; ++n) {
        const BFloat16* one = narrow + m * width + n;
        const uint32_t second = m + 1 < pixels ? one[width].bits : 0;
        room[m / 2 * width + n] = one->bits | second << 16;
      }
    return room;
  }
};
#endif

/// S: of x and dy. Sums are in `Compute<S>`.
template <class S, class By>
class NarrowWeight {
  using T = Compute<S>;
  using Number = typename By::Number;

 public:
  /// x goes through `norm`, if it is not null: of float32, and one by one.
  NarrowWeight(const ConvShape& shape, const InputNorm* norm, void* scratch)
      : shape_(shape),
        sides_(shape),
        pixels_(shape.pixels()),
        wide_(sides_.wide),
        narrow_(sides_.narrow),
        pieces_(std::clamp<int64_t>(pixels_ / kPixelsOfPiece, 1, kMostPieces)),
        cursor_(scratch),
        norm_(norm),
        totals_(cursor_.take<double>(pieces_ * wide_ * narrow_)),
        rooms_(norm == nullptr ? nullptr : cursor_.take<S>(pieces_ * kBlock * shape.c)) {}

  int64_t scratch_bytes() const { return cursor_.used(); }

  void run(const S* x, const S* dy, T* dweight) const {
    parallel_pieces(pixels_, pieces_, [&](int64_t piece, int64_t begin, int64_t end) {
      double* totals = of_piece(piece, 0);
      std::fill_n(totals, wide_ * narrow_, 0.0);
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t pixels = std::min(kBlock, end - at);
        Number room[kBlock / By::kPixels * kMostNarrow];
        const S *of_dy = dy + at * shape_.k, *of_x = normalized(x, at, pixels, piece);
        if (sides_.by_windows)
          add_block({of_dy, of_dy}, windows(x, at, pixels, room), pixels, totals);
        else if (sides_.x_is_wide)
          add_block({of_x, x + at * wide_}, By::numbers(of_dy, pixels, narrow_, room), pixels,
                    totals);
        else
          add_block({of_dy, of_dy}, By::numbers(of_x, pixels, narrow_, room), pixels, totals);
      }
    });
    // Not those of zeros behind windows.
    const int64_t rows = sides_.x_is_wide ? narrow_ : shape_.window();
    parallel_for(rows, kGrain / (wide_ * pieces_) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) add_pieces(n, dweight);
    });
  }

 private:
  using V = Vector<T>;
  static constexpr int64_t kMostPieces = 8, kPixelsOfPiece = 256;
  static constexpr int64_t kGrain = 16384;  // numbers whose sum repays a thread
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
  /// Pixels of x from `at` on, where they lie or in the room of a piece.
  const S* normalized(const S* x, int64_t at, int64_t pixels, int64_t piece) const {
    const S* from = x + at * shape_.c;
    if constexpr (std::is_same_v<S, float>)
      if (norm_ != nullptr) {
        S* room = rooms_ + piece * kBlock * shape_.c;
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
  int64_t pixels_, wide_, narrow_, pieces_;
  ScratchCursor cursor_;
  const InputNorm* norm_;
  double* totals_;  // [pieces][narrow][wide]
  S* rooms_;        // [pieces][kBlock][channels]
};

#ifdef __AVX512BW__
constexpr bool kCanPair = true;
#else
constexpr bool kCanPair = false;
#endif

/// `body(NarrowWeight)` of the way that is the fastest.
template <class S, class Body>
auto with_narrow_weight(const ConvShape& shape, void* scratch, const Body& body) {
#ifdef __AVX512BW__
  if constexpr (std::is_same_v<S, BFloat16>)
    if (onednn::has_bfloat16()) return body(NarrowWeight<S, TwoByTwo>(shape, nullptr, scratch));
#endif
  return body(NarrowWeight<S, OneByOne<S>>(shape, nullptr, scratch));
}

}  // namespace

template <class S>
bool has_narrow_weight(const ConvShape& shape) {
  constexpr int64_t kFewest = 1024, kMostWide = 256;
  // Where the library has instructions for halves that are not used here, it is faster.
  if (std::is_same_v<S, BFloat16> && !kCanPair && onednn::has_bfloat16()) return false;
  // Slices of a batch of float32 are by the size of x (ops/conv_slices.h): where that is the wide
  // side, there are more of them to add up.
  const int64_t most_narrow = shape.c <= shape.k ? kMostNarrow : kMostNarrow / 2;
  const Sides sides(shape);
  if (shape.groups != 1 || shape.pixels() < kFewest || sides.wide == 0 || sides.wide > kMostWide ||
      sides.wide % kLanes<Vector<Compute<S>>> != 0)
    return false;
  if (!sides.by_windows)
    return sides.narrow > 0 && sides.narrow <= most_narrow && sides.narrow % kNarrow == 0;
  // Measured against the library with these registers only.
  constexpr bool kKnown = kVectorBytes == 32 && std::is_same_v<S, float>;
  return kKnown && shape.r * shape.s > 1 && shape.dilation.w == 1 && sides.narrow > 0 &&
         sides.narrow <= kMostNarrow;
}

template <class S>
int64_t narrow_backward_weight_scratch(const ConvShape& shape) {
  return with_narrow_weight<S>(shape, nullptr,
                               [](const auto& weight) { return weight.scratch_bytes(); });
}

template <class S>
void narrow_backward_weight(const ConvShape& shape, const S* x, const S* dy, Compute<S>* dweight,
                            void* scratch) {
  with_narrow_weight<S>(shape, scratch, [&](const auto& weight) { weight.run(x, dy, dweight); });
}

int64_t normalized_narrow_weight_scratch(const ConvShape& shape, const InputNorm& norm) {
  return NarrowWeight<float, OneByOne<float>>(shape, &norm, nullptr).scratch_bytes();
}

void normalized_narrow_weight(const ConvShape& shape, const InputNorm& norm, const float* x,
                              const float* dy, float* dweight, void* scratch) {
  NarrowWeight<float, OneByOne<float>>(shape, &norm, scratch).run(x, dy, dweight);
}

#define BRIM_INSTANTIATE(S)                                             \
  template bool has_narrow_weight<S>(const ConvShape&);                 \
  template int64_t narrow_backward_weight_scratch<S>(const ConvShape&); \
  template void narrow_backward_weight(const ConvShape&, const S*, const S*, Compute<S>*, void*);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
BRIM_INSTANTIATE(BFloat16)
BRIM_INSTANTIATE(Float16)
#undef BRIM_INSTANTIATE

}  // namespace brim::cpu
