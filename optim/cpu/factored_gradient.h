// Updates from a gradient that is never stored, but comes as two factors
// (autograd/gradient_factors.h): stretches of it are made in the first cache, where the update and
// the sum of its squares read them. A weight of few pixels then goes through memory once for
// forward, once for its data gradient and once here, and its gradient not at all.
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

inline bool has_factors(const KernelCall& call) { return call.in[2].present; }

/// Of the first output of a call, from inputs 2 and 3.
template <class T>
class FactoredGradient {
 public:
  explicit FactoredGradient(const KernelCall& call)
      : a_(call.in[2].as<T>()),
        b_(call.in[3].as<T>()),
        rows_(call.out[0].shape[0]),
        columns_(call.out[0].numel() / rows_),
        rank_(call.in[2].numel() / rows_) {}

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

/// kK pieces of the update side by side, whose stretches meet the same ones of `b`: equal pieces of
/// whole rows, or a single one.
template <int kK, bool kPlain, class T, class Update>
void update_pieces(const FactoredGradient<T>& gradient, int64_t pieces, int64_t first,
                   const optim::GradientReader<T>& read, double* sums, const Update& update) {
  constexpr int64_t kStretch = 256;  // elements: kK of them, and one of each pixel's b, are in L1
  constexpr int64_t kAhead = 2 * kStretch;
  alignas(64) T g[kK][kStretch];
  auto squares = copies(SquareSum<T, T>(read), std::make_index_sequence<kK>());
  const int64_t begin = gradient.size() * first / pieces;
  const int64_t length = gradient.size() * (first + 1) / pieces - begin;
  for (int64_t at = 0; at < length; at += kStretch) {
    const int64_t count = std::min(kStretch, length - at);
    const int64_t ahead = at + kAhead, next = std::min(kStretch, length - ahead);
    for (int k = 0; k < kK; ++k) update.fetch(begin + k * length + ahead, next);
    gradient.template make<kK>(begin + at, length / gradient.columns(), count, g[0], kStretch);
    for (int k = 0; k < kK; ++k) {
      squares[static_cast<size_t>(k)].template add_all<kPlain>(g[k], count);
      update(begin + k * length + at, count, g[k]);
    }
  }
  for (int k = 0; k < kK; ++k)
    sums[first + k] = squares[static_cast<size_t>(k)].template finite_sum<kPlain>();
}

/// As `update_and_sum`: calls update(begin, count, elements of the gradient) for stretches of all
/// elements, in parallel, and for most of them update.fetch(begin, count) some time before. Where
/// there is a view `sum`, it gets the bits that `square_sum` would give of the whole gradient.
template <class T, class Update>
void update_from_factors(const KernelCall& call, const View& sum,
                         const optim::GradientReader<T>& read, const Update& update) {
  constexpr int kTogether = 4;
  const FactoredGradient<T> gradient(call);
  const int64_t pieces = square_sum_pieces(gradient.size());
  double sums[kMostSquareSumPieces];
  const auto run = [&](auto together) {
    constexpr int kK = together();
    parallel_pieces(pieces / kK, pieces / kK, [&](int64_t group, int64_t, int64_t) {
      if (read.is_plain())
        update_pieces<kK, true>(gradient, pieces, group * kK, read, sums, update);
      else
        update_pieces<kK, false>(gradient, pieces, group * kK, read, sums, update);
    });
  };
  if (gradient.rows() % pieces == 0 && pieces % kTogether == 0 &&
      pieces / kTogether >= num_threads())
    run(std::integral_constant<int, kTogether>());
  else
    run(std::integral_constant<int, 1>());
  if (sum.present) *sum.as<double>() = std::accumulate(sums, sums + pieces, 0.0);
}

}  // namespace brim::cpu
