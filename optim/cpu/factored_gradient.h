// Updates from a gradient that is never stored, but comes as two factors
// (autograd/gradient_factors.h): stretches of it are made in the first cache, where the update or
// the sum of its squares reads them, or both. A weight of few pixels then goes through memory once
// for forward, once for its data gradient and once here, and its gradient not at all.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>

#include "brim/optim/cpu/square_sum.h"
#include "brim/optim/cpu/stretches.h"

namespace brim::cpu {

inline bool has_factors(const KernelCall& call) { return call.in.size() > 2 && call.in[2].present; }

/// From inputs 2 and 3 of a call: matrices.
template <class T>
class FactoredGradient {
 public:
  explicit FactoredGradient(const KernelCall& call)
      : a_(call.in[2].as<T>()),
        b_(call.in[3].as<T>()),
        rows_(call.in[2].shape[1]),
        columns_(call.in[3].shape[1]),
        rank_(call.in[2].shape[0]) {}

  int64_t size() const { return rows_ * columns_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  /// g [kK, count] = elements from `begin` on, and those as many as k * `apart` whole rows later;
  /// a row of g is of `g_row` elements.
  template <int kK>
  void make(int64_t begin, int64_t apart, int64_t count, T* g, int64_t g_row) const {
    while (count > 0) {
      const int64_t row = begin / columns_, column = begin % columns_;
      const int64_t length = std::min(count, columns_ - column);
      make_within_rows<kK>({a_ + row, apart}, b_ + column, length, {g, g_row});
      begin += length, g += length, count -= length;
    }
  }

 private:
  template <class E>
  struct Apart {
    E* first;
    int64_t apart;  // elements from one to the next
  };

  template <int kK>
  void make_within_rows(Apart<const T> a, const T* b, int64_t length, Apart<T> g) const {
    constexpr int kM = 4;
    int64_t m = 0;
    const auto add = [&]<int kCount, bool kFirst>() {
      add_products<kK, kCount, kFirst>({a.first + m * rows_, a.apart}, b + m * columns_, length, g);
      m += kCount;
    };
    if (rank_ >= kM)
      add.template operator()<kM, true>();
    else
      add.template operator()<1, true>();
    while (m + kM <= rank_) add.template operator()<kM, false>();
    while (m < rank_) add.template operator()<1, false>();
  }

  template <int kK, int kM, bool kFirst>
  void add_products(Apart<const T> a, const T* __restrict b, int64_t length, Apart<T> to) const {
    T factor[kM][kK];
    for (int m = 0; m < kM; ++m)
      for (int k = 0; k < kK; ++k) factor[m][k] = a.first[m * rows_ + k * a.apart];
    T* __restrict g = to.first;
#pragma omp simd
    for (int64_t i = 0; i < length; ++i)
      for (int k = 0; k < kK; ++k) {
        T sum = kFirst ? T(0) : g[k * to.apart + i];
        for (int m = 0; m < kM; ++m) sum = std::fma(factor[m][k], b[m * columns_ + i], sum);
        g[k * to.apart + i] = sum;
      }
  }

  const T *a_, *b_;
  int64_t rows_, columns_, rank_;
};

template <class V, size_t... i>
std::array<V, sizeof...(i)> copies(const V& value, std::index_sequence<i...>) {
  return {(static_cast<void>(i), value)...};
}

/// The squares that are added up beside an update; `plain` ones are of elements as they are.
enum class Squares { none, plain, read };

/// An update in pieces, for `GatheredLoop`: kK of them side by side, whose stretches meet the same
/// ones of `b`: equal pieces of whole rows, or a single one.
template <int kK, Squares kSquared, class T, class Update>
struct FactoredUpdate {
  FactoredGradient<T> gradient;
  int64_t pieces;
  optim::GradientReader<T> read;
  Update update;
  double* sum;
  double sums[kMostSquareSumPieces] = {};

  void operator()(int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) run(group * kK);
  }
  void finish() const {
    if constexpr (kSquared != Squares::none) *sum = std::accumulate(sums, sums + pieces, 0.0);
  }

 private:
  void run(int64_t first) {
    constexpr bool kPlain = kSquared == Squares::plain;
    const FactoredGradient<T> made = gradient;  // copies: the stores below are not into them
    const Update updates = update;
    constexpr int64_t kStretch = 256;  // elements: kK of them, and one of each pixel's b, are in L1
    constexpr int64_t kAhead = 2 * kStretch;
    alignas(64) T g[kK][kStretch];
    auto squares = copies(SquareSum<T, T>(read), std::make_index_sequence<kK>());
    const int64_t begin = made.size() * first / pieces;
    const int64_t length = made.size() * (first + 1) / pieces - begin;
    for (int64_t at = 0; at < length; at += kStretch) {
      const int64_t count = std::min(kStretch, length - at);
      const int64_t ahead = at + kAhead, next = std::min(kStretch, length - ahead);
      for (int k = 0; k < kK; ++k) updates.fetch(begin + k * length + ahead, next);
      made.template make<kK>(begin + at, length / made.columns(), count, g[0], kStretch);
      for (int k = 0; k < kK; ++k) {
        if constexpr (kSquared != Squares::none)
          squares[static_cast<size_t>(k)].template add_all<kPlain>(g[k], count);
        updates(begin + k * length + at, count, g[k]);
      }
    }
    if constexpr (kSquared != Squares::none)
      for (int k = 0; k < kK; ++k)
        sums[first + k] = squares[static_cast<size_t>(k)].template finite_sum<kPlain>();
  }
};

template <Squares kSquared, class T, class Update>
void gather_from_factors(const KernelCall& call, const View& sum,
                         const optim::GradientReader<T>& read, const Update& update) {
  constexpr int kTogether = 4;
  const FactoredGradient<T> gradient(call);
  const int64_t pieces = square_sum_pieces(gradient.size());
  const auto gather = [&]<int kK>() {
    using Body = FactoredUpdate<kK, kSquared, T, Update>;
    GatheredLoop<Body>::of_this_thread().add(
        Body{gradient, pieces, read, update, sum.present ? sum.as<double>() : nullptr},
        gradient.size(), pieces / kK, kSquareSumPiece);
  };
  if (gradient.rows() % pieces == 0 && pieces % kTogether == 0 &&
      pieces / kTogether >= num_threads())
    gather.template operator()<kTogether>();
  else
    gather.template operator()<1>();
}

/// As `update_and_sum`: calls update(begin, count, elements of the gradient) for stretches of all
/// elements, in parallel and gathered, and for most of them update.fetch(begin, count) some time
/// before; `update` must not refer to the call. Where there is a view `sum`, it gets the bits that
/// `square_sum` would give of the whole gradient.
template <class T, class Update>
void update_from_factors(const KernelCall& call, const View& sum,
                         const optim::GradientReader<T>& read, const Update& update) {
  if (!sum.present) return gather_from_factors<Squares::none>(call, sum, read, update);
  if (read.is_plain()) return gather_from_factors<Squares::plain>(call, sum, read, update);
  gather_from_factors<Squares::read>(call, sum, read, update);
}

}  // namespace brim::cpu
