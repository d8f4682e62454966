#include "brim/ops/cpu/narrow_weight.h"

#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/vector.h"

namespace brim::cpu {
namespace {

// A tile's sums, with a vector of each column of it and a number, fill the registers.
constexpr int kNarrow = kVectorBytes == 64 ? 8 : 4;
constexpr int kVectors = 3;
constexpr int64_t kBlock = 64;  // pixels whose sums are in T, and which the caches keep

template <class T>
class NarrowWeight {
 public:
  NarrowWeight(const ConvShape& shape, void* scratch)
      : x_is_wide_(shape.c > shape.k),
        pixels_(shape.pixels()),
        wide_(std::max(shape.c, shape.k)),
        narrow_(std::min(shape.c, shape.k)),
        pieces_(std::clamp<int64_t>(pixels_ / kPixelsOfPiece, 1, kMostPieces)),
        cursor_(scratch),
        totals_(cursor_.take<double>(pieces_ * wide_ * narrow_)) {}

  int64_t scratch_bytes() const { return cursor_.used(); }

  void run(const T* x, const T* dy, T* dweight) const {
    const T *wide = x_is_wide_ ? x : dy, *narrow = x_is_wide_ ? dy : x;
    parallel_pieces(pixels_, pieces_, [&](int64_t piece, int64_t begin, int64_t end) {
      double* totals = of_piece(piece, 0);
      std::fill_n(totals, wide_ * narrow_, 0.0);
      for (int64_t at = begin; at < end; at += kBlock)
        add_block(wide + at * wide_, narrow + at * narrow_, std::min(kBlock, end - at), totals);
    });
    parallel_for(narrow_, kGrain / (wide_ * pieces_) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) add_pieces(n, dweight);
    });
  }

 private:
  using V = Vector<T>;
  static constexpr int64_t kMostPieces = 8, kPixelsOfPiece = 256;
  static constexpr int64_t kGrain = 16384;  // numbers whose sum repays a thread

  double* of_piece(int64_t piece, int64_t n) const {
    return totals_ + (piece * narrow_ + n) * wide_;
  }

  void add_pieces(int64_t n, T* dweight) const {
    double* sums = of_piece(0, n);
    for (int64_t piece = 1; piece < pieces_; ++piece) {
      const double* more = of_piece(piece, n);
      for (int64_t w = 0; w < wide_; ++w) sums[w] += more[w];
    }
    for (int64_t w = 0; w < wide_; ++w)
      dweight[x_is_wide_ ? n * wide_ + w : w * narrow_ + n] = static_cast<T>(sums[w]);
  }

  void add_block(const T* wide, const T* narrow, int64_t pixels, double* totals) const {
    for (int64_t w = 0; w < wide_;) {
      const int64_t left = (wide_ - w) / kLanes<V>;
      for (int64_t n = 0; n < narrow_; n += kNarrow) {
        double* to = totals + n * wide_ + w;
        if (left >= kVectors)
          add_tile<kVectors>(wide + w, narrow + n, pixels, to);
        else if (left == 2)
          add_tile<2>(wide + w, narrow + n, pixels, to);
        else
          add_tile<1>(wide + w, narrow + n, pixels, to);
      }
      w += std::min<int64_t>(left, kVectors) * kLanes<V>;
    }
  }

  template <int kV>
  void add_tile(const T* wide, const T* narrow, int64_t pixels, double* totals) const {
    V sums[kNarrow][kV] = {};
    for (int64_t m = 0; m < pixels; ++m, wide += wide_, narrow += narrow_) {
      // What the next block wants, while this one has the time.
      prefetch(wide + kBlock * wide_, kV * kLanes<V>);
      V columns[kV];
      for (int v = 0; v < kV; ++v) columns[v] = load<V>(wide + v * kLanes<V>);
      for (int n = 0; n < kNarrow; ++n) {
        const V row = broadcast<V>(narrow[n]);
        for (int v = 0; v < kV; ++v) sums[n][v] = fma(row, columns[v], sums[n][v]);
      }
    }
    T stored[kNarrow][kV * kLanes<V>];
    for (int n = 0; n < kNarrow; ++n)
      for (int v = 0; v < kV; ++v) store(stored[n] + v * kLanes<V>, sums[n][v]);
    for (int n = 0; n < kNarrow; ++n)
      for (int i = 0; i < kV * kLanes<V>; ++i)
        totals[n * wide_ + i] += static_cast<double>(stored[n][i]);
  }

  bool x_is_wide_;
  int64_t pixels_, wide_, narrow_, pieces_;
  ScratchCursor cursor_;
  double* totals_;  // [pieces][narrow][wide]
};

}  // namespace

template <class T>
bool has_narrow_weight(const ConvShape& shape) {
  constexpr int64_t kFewest = 1024, kMostWide = 256;
  // Slices of a batch are by the size of x (ops/conv_slices.h): where that is the wide side, there
  // are more of them to add up.
  const int64_t most_narrow = shape.c <= shape.k ? 64 : 32;
  const int64_t narrow = std::min(shape.c, shape.k), wide = std::max(shape.c, shape.k);
  return shape.groups == 1 && shape.is_pointwise() && shape.pixels() >= kFewest && narrow > 0 &&
         narrow <= most_narrow && wide <= kMostWide && narrow % kNarrow == 0 &&
         wide % kLanes<Vector<T>> == 0;
}

template <class T>
int64_t narrow_backward_weight_scratch(const ConvShape& shape) {
  return NarrowWeight<T>(shape, nullptr).scratch_bytes();
}

template <class T>
void narrow_backward_weight(const ConvShape& shape, const T* x, const T* dy, T* dweight,
                            void* scratch) {
  NarrowWeight<T>(shape, scratch).run(x, dy, dweight);
}

#define BRIM_INSTANTIATE(T)                                             \
  template bool has_narrow_weight<T>(const ConvShape&);                 \
  template int64_t narrow_backward_weight_scratch<T>(const ConvShape&); \
  template void narrow_backward_weight(const ConvShape&, const T*, const T*, T*, void*);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
#undef BRIM_INSTANTIATE

}  // namespace brim::cpu
