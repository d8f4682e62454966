// Sums of the squares of gradients: for `square_sum`, and for updates that make them on the way, so
// that each element is read once. The same bits for both, and for every instruction set.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "brim/base/parallel.h"
#include "brim/core/half_simd.h"
#include "brim/core/launch.h"
#include "brim/optim/cpu/gathered_loop.h"
#include "brim/optim/cpu/stretches.h"
#include "brim/optim/gradient_reader.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace brim::cpu {

/// Elements whose squares are added side by side: a sum waits for its last addition, and memory
/// does not. Element i of a piece goes to sum i % kSquares, whatever the vectors are.
inline constexpr int64_t kSquares = 32;

/// Of one piece.
template <class T, class S>
class SquareSum {
 public:
  explicit SquareSum(const optim::GradientReader<T>& read) : read_(read) {}

  /// Elements in order; of all calls but the last a multiple of kSquares. Plain ones are read as
  /// they are.
  template <bool kPlain>
  void add_all(const S* x, int64_t count) {
    for (; count >= kSquares; count -= kSquares, x += kSquares) add<kPlain>(x);
    for (; count > 0; --count, ++x) add_one<kPlain>(x);
  }
  /// NaN where an element was not finite. No sum of squares of float32 overflows float64: it is
  /// finite where they all are.
  template <bool kPlain>
  double finite_sum() const {
    const double all = sum();
    return kPlain && std::is_same_v<T, float> ? all + 0 * all : all;
  }

 private:
  // kSquares elements.
  template <bool kPlain>
  void add(const S* x) {
    for (int64_t v = 0; v < kVectors; ++v) {
      Elements stored, read;
      set(stored, [&](int64_t i) { return convert<T>(x[v * kWidth + i]); });
      if constexpr (kPlain)
        read = stored;
      else
        set(read, [&](int64_t i) { return read_(T(stored[i])); });
      const Numbers value = widen(read);
      Numbers square = value * value;
      if constexpr (!kSquaresDo<kPlain>) square += 0 * widen(stored);
      sums_[v] += square;
    }
  }
  template <bool kPlain>
  void add_one(const S* x) {
    const T stored = convert<T>(*x);
    const auto value = static_cast<double>(kPlain ? stored : read_(stored));
    rest_ += value * value;
    if constexpr (!kSquaresDo<kPlain>) rest_ += 0 * static_cast<double>(stored);
  }
  double sum() const {
    constexpr int64_t kApart = kVectors / 4;  // a quarter of the sums: the same bits for any width
    double sum = rest_;
    for (int64_t v = 0; v < kApart; ++v) {
      const Numbers all =
          (sums_[v] + sums_[v + kApart]) + (sums_[v + 2 * kApart] + sums_[v + 3 * kApart]);
      for (int64_t i = 0; i < kWidth; ++i) sum += all[i];
    }
    return sum;
  }

  // A register's: wider vectors would be kept in memory.
#ifdef __AVX512F__
  static constexpr int64_t kWidth = 8;
#else
  static constexpr int64_t kWidth = 4;
#endif
  static constexpr int64_t kVectors = kSquares / kWidth;
  typedef T Elements __attribute__((vector_size(kWidth * sizeof(T))));
  typedef double Numbers __attribute__((vector_size(kWidth * sizeof(double))));

  // Do the squares alone tell of what is not finite? Not where one of float64 may overflow, or
  // clipping makes finite what was not. 0 * x is a zero for every finite x and NaN for the others:
  // no branches, unlike std::isfinite with an early end.
  template <bool kPlain>
  static constexpr bool kSquaresDo = kPlain && std::is_same_v<T, float>;

  // GCC converts a vector in halves, through memory. Without a mask it warns of its own header.
  static Numbers widen(const Elements& elements) {
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<T, float>) return _mm512_maskz_cvtps_pd(0xFF, elements);
#elif defined(__AVX__)
    if constexpr (std::is_same_v<T, float>) return _mm256_cvtps_pd(elements);
#endif
    return __builtin_convertvector(elements, Numbers);
  }

  template <class Element>
  static void set(Elements& elements, const Element& element) {
    T values[kWidth];
#pragma omp simd
    for (int64_t i = 0; i < kWidth; ++i) values[i] = element(i);
    std::memcpy(&elements, values, sizeof(elements));
  }

  const optim::GradientReader<T> read_;
  Numbers sums_[kVectors] = {};
  double rest_ = 0;
};

/// The sum of the squares of elements [begin, end), NaN where one is not finite, and only then. As
/// soon as `kStretch` of them were read, or the rest, then(first, last) is called for them.
template <int64_t kStretch, bool kPlain, class T, class S, class Then>
double sum_squares_of(const S* x, int64_t begin, int64_t end, const optim::GradientReader<T>& read,
                      const Then& then) {
  static_assert(kStretch % kSquares == 0);
  constexpr int64_t kAhead = 512;  // memory alone does not come fast enough, page after page
  SquareSum<T, S> squares(read);
  for (; begin + kStretch <= end; begin += kStretch) {
    fetch_lines(x, begin + kAhead, kStretch);
    squares.template add_all<kPlain>(x + begin, kStretch);
    then(begin, begin + kStretch);
  }
  squares.template add_all<kPlain>(x + begin, end - begin);
  if (begin < end) then(begin, end);
  return squares.template finite_sum<kPlain>();
}

inline constexpr int64_t kMostSquareSumPieces = 64;  // enough for every thread
inline constexpr int64_t kSquareSumPiece = 16384;    // elements that repay a second thread

/// Pieces whose sums are added in order, of a gradient of this size. Powers of two, for threads to
/// get equal shares.
inline int64_t square_sum_pieces(int64_t size) {
  const int64_t most = std::clamp<int64_t>(size / kSquareSumPiece, 1, kMostSquareSumPieces);
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most)));
}

/// `sum_squares_of` a piece of `size` elements.
template <int64_t kStretch, class T, class S, class Then>
double sum_squares_of_piece(const S* x, int64_t size, int64_t piece, int64_t pieces,
                            const optim::GradientReader<T>& read, const Then& then) {
  const int64_t begin = size * piece / pieces, end = size * (piece + 1) / pieces;
  return read.is_plain() ? sum_squares_of<kStretch, true>(x, begin, end, read, then)
                         : sum_squares_of<kStretch, false>(x, begin, end, read, then);
}

/// The sum of the squares of a gradient, in pieces that are cut by its size alone, whose sums are
/// added in order: the same bits with any number of threads, and for every kStretch. Each thread
/// calls `then` as `sum_squares_of` does.
template <int64_t kStretch, class T, class S, class Then>
double sum_squares(const View& gradient, const optim::GradientReader<T>& read, const Then& then) {
  const S* x = gradient.as<S>();
  const int64_t size = gradient.numel(), pieces = square_sum_pieces(size);
  double sums[kMostSquareSumPieces] = {};
  parallel_pieces(size, pieces, [&](int64_t piece, int64_t, int64_t) {
    sums[piece] = sum_squares_of_piece<kStretch>(x, size, piece, pieces, read, then);
  });
  return std::accumulate(sums, sums + pieces, 0.0);
}

/// For an update that reads the gradient of a call: calls body(begin, end) for stretches of all
/// elements, in parallel where there are two times `grain`, and gathered: `body` must not refer to
/// the call. Where there is a view `sum`, at once: the sum of the squares is left there, and the
/// stretches are of kStretch elements.
template <int64_t kStretch, class T, class Body>
void update_and_sum(const KernelCall& call, const View& sum, const optim::GradientReader<T>& read,
                    int64_t grain, const Body& body) {
  const View& gradient = call.in[0];
  if (!sum.present) return gather_elements(gradient.numel(), grain, body);
  double& squares = *sum.as<double>();
  if constexpr (std::is_same_v<T, float>)
    if (gradient.dtype == Dtype::bfloat16)
      return void(squares = sum_squares<kStretch, T, BFloat16>(gradient, read, body));
  squares = sum_squares<kStretch, T, T>(gradient, read, body);
}

}  // namespace brim::cpu
