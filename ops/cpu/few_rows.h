// Matrix products with few rows on one side, such as one for each image of a batch, where the other
// operand, a weight, stays where it lies: it is read too few times to be packed first. Any sizes,
// float and double; on the calling thread: who has several gives each a stretch of the result. The
// order of each sum depends on its length alone, so that a row does not depend on those that are
// worked on with it. For larger ones there is ops/cpu/gemm.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "brim/base/range.h"
#include "brim/ops/cpu/tile_product.h"

namespace brim::cpu::few_rows {

/// Begins to fetch what a tile later reads from memory, past the first cache, which is for what is
/// read again. There need be nothing at `address`.
inline void prefetch_into_second_cache(const void* address) { __builtin_prefetch(address, 0, 2); }

/// Calls `body.template operator()<kCount>(i)` for all of the range, `kMost` at a time while there
/// are as many, then half as many, and so on.
template <int kMost, class Body>
inline void for_groups(Range range, const Body& body) {
  for (; range.begin + kMost <= range.end; range.begin += kMost)
    body.template operator()<kMost>(range.begin);
  if constexpr (kMost > 1) for_groups<kMost / 2>(range, body);
}

/// The columns of B and C that `V` fills, from column j on. The first rows of C ask for the columns
/// of B that are next.
template <int kRows, int kVectors, class V, class T>
inline void multiply_tile(const tiles::Product<T>& g, int64_t i, int64_t j, bool is_first) {
  V sums[kRows][kVectors] = {};
  const T *a = g.a + i * g.a_row, *b = g.b + j;
  if (is_first)
    tiles::sum_tile(g, a, b, sums, [](int64_t, const T* columns) {
      for (int v = 0; v < kVectors; ++v)
        prefetch_into_second_cache(columns + (kVectors + v) * kLanes<V>);
    });
  else
    tiles::sum_tile(g, a, b, sums);
  tiles::unrolled<kRows, kVectors>(
      [&](int k, int v) { store(g.c + (i + k) * g.c_row + j + v * kLanes<V>, sums[k][v]); });
}

template <int kVectors, class V, class T>
void multiply_columns(const tiles::Product<T>& g, Range rows, int64_t j) {
  constexpr int kRows =
      kVectorBytes == 64 && kVectors < 4 ? 8 : 4;  // whose sums the registers hold
  for_groups<kRows>(rows, [&]<int kCount>(int64_t i) {
    multiply_tile<kCount, kVectors, V>(g, i, j, i == rows.begin);
  });
}

/// Of a few rows as much as stays in the first cache while others pass by.
inline constexpr size_t kStretchBytes = 4096;

/// Adds kDepth rows of B, times their elements of A, to kRows rows of C, or begins with them.
template <int kRows, int kDepth, bool kBegins, class T>
inline void add_rows(const tiles::Product<T>& g, int64_t i, int64_t p, Range columns) {
  T factor[kRows][kDepth];
  for (int k = 0; k < kRows; ++k)
    for (int q = 0; q < kDepth; ++q) factor[k][q] = g.a[(i + k) * g.a_row + (p + q) * g.a_step];
  const T* b = g.b + p * g.b_row + columns.begin;
  T* c = g.c + i * g.c_row + columns.begin;
  for_lanes_and_halves<T>(columns.end - columns.begin, [&]<class V>(int64_t j) {
    V row[kDepth];
    for (int q = 0; q < kDepth; ++q) {
      row[q] = load<V>(b + q * g.b_row + j);
      prefetch_into_second_cache(b + (kDepth + q) * g.b_row + j);
    }
    for (int k = 0; k < kRows; ++k) {
      V sum = kBegins ? V{} : load<V>(c + k * g.c_row + j);
      for (int q = 0; q < kDepth; ++q) sum = fma(broadcast<V>(factor[k][q]), row[q], sum);
      store(c + k * g.c_row + j, sum);
    }
  });
}

/// The same sums where registers hold a cache line's columns and no more: B, which comes from
/// memory, is read along its rows, and C stays in the first cache.
template <class T>
void multiply_along_rows(const tiles::Product<T>& g, Range rows, Range columns) {
  constexpr auto kStretch = static_cast<int64_t>(kStretchBytes / sizeof(T));
  constexpr int kDepth = 4;
  for (int64_t j = columns.begin; j < columns.end; j += kStretch) {
    const Range stretch{j, std::min(j + kStretch, columns.end)};
    for_groups<4>(rows, [&]<int kRows>(int64_t i) {
      add_rows<kRows, 1, true>(g, i, 0, stretch);
      for_groups<kDepth>({1, g.depth}, [&]<int kCount>(int64_t p) {
        add_rows<kRows, kCount, false>(g, i, p, stretch);
      });
    });
  }
}

/// These rows and columns of C = A B.
template <class T>
void multiply(const tiles::Product<T>& g, Range rows, Range columns) {
  constexpr int64_t kTwo = 2 * kLanes<Vector<T>>, kFour = 2 * kTwo;
  constexpr bool kWide = kVectorBytes == 64;
  const bool few = rows.end - rows.begin <= 4;  // which leave registers for more columns
  if (!kWide && few && g.depth > 0) return multiply_along_rows(g, rows, columns);
  int64_t j = columns.begin;
  if (kWide && few)
    for (; j + kFour <= columns.end; j += kFour) multiply_columns<4, Vector<T>>(g, rows, j);
  for (; j + kTwo <= columns.end; j += kTwo) multiply_columns<2, Vector<T>>(g, rows, j);
  for_lanes_and_halves<T>(columns.end - j,
                          [&]<class V>(int64_t at) { multiply_columns<1, V>(g, rows, j + at); });
}

/// The sum of the elements of a vector, halves of it added until one is left.
template <class V>
inline auto sum_of_lanes(const V& value) {
  using T = std::remove_cvref_t<decltype(value[0])>;
  if constexpr (sizeof(V) == 2 * sizeof(T)) {
    return value[0] + value[1];
  } else {
    typedef T Half __attribute__((vector_size(sizeof(V) / 2)));
    Half halves[2];
    std::memcpy(halves, &value, sizeof(V));
    return sum_of_lanes<Half>(halves[0] + halves[1]);
  }
}

/// c[i][j] = finish(bias[j] + sum over p of a[i][p] * b[j][p]), rows of `depth` and `c_row`
/// elements one after the other. `bias` may be null.
template <class T>
struct Dots {
  const T *a, *b, *bias;
  T* c;
  int64_t c_row, depth;
};

/// Rows of B lie one behind the other: where those of a tile end, those of the next one begin. The
/// first rows of A ask for elements of each row of B so far ahead of those that they multiply.
inline constexpr int64_t kBytesAhead = 1536;

template <int kA, int kB, bool kPrefetches, class T, class Finish>
inline void dots_tile(const Dots<T>& g, int64_t i, int64_t j, const Finish& finish) {
  using V = Vector<T>;
  const T *a = g.a + i * g.depth, *b = g.b + j * g.depth;
  V sums[kA][kB] = {};
  int64_t p = 0;
  const auto add_up = [&](int64_t end, int64_t ahead) {
    for (; p < end; p += kLanes<V>) {
      V of_a[kA];
      for (int k = 0; k < kA; ++k) of_a[k] = load<V>(a + k * g.depth + p);
      for (int l = 0; l < kB; ++l) {
        if constexpr (kPrefetches) __builtin_prefetch(b + l * g.depth + p + ahead);
        const V of_b = load<V>(b + l * g.depth + p);
        for (int k = 0; k < kA; ++k) sums[k][l] = fma(of_a[k], of_b, sums[k][l]);
      }
    }
  };
  constexpr int64_t kAhead = kBytesAhead / static_cast<int64_t>(sizeof(T));
  const int64_t whole = g.depth / kLanes<V> * kLanes<V>;
  if constexpr (kPrefetches) add_up(whole - kAhead, kAhead);
  add_up(whole, kAhead + (kB - 1) * g.depth);
  T rest[kA][kB] = {};
  for (; p < g.depth; ++p)
    for (int k = 0; k < kA; ++k)
      for (int l = 0; l < kB; ++l)
        rest[k][l] = fma(a[k * g.depth + p], b[l * g.depth + p], rest[k][l]);
  for (int k = 0; k < kA; ++k)
    for (int l = 0; l < kB; ++l)
      g.c[(i + k) * g.c_row + j + l] = finish(sum_of_lanes(sums[k][l]) + rest[k][l] +
                                              (g.bias == nullptr ? T(0) : g.bias[j + l]));
}

/// These rows and columns of c.
template <class T, class Finish>
void dots(const Dots<T>& g, Range rows, Range columns, const Finish& finish) {
  constexpr int kMostA = 4, kMostB = kVectorBytes == 64 ? 6 : 2;  // whose sums the registers hold
  for_groups<kMostB>(columns, [&]<int kB>(int64_t j) {
    for_groups<kMostA>(rows, [&]<int kA>(int64_t i) {
      if (i == rows.begin)
        dots_tile<kA, kB, true>(g, i, j, finish);
      else
        dots_tile<kA, kB, false>(g, i, j, finish);
    });
  });
}

}  // namespace brim::cpu::few_rows
