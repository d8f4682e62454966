// Matrix products by tiles of C that registers hold, for operands that lie in a cache in whole
// vectors, so that unlike those of ops/cpu/gemm.h they are not packed first: those of Winograd's
// convolutions and of 1x1 convolutions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/ops/cpu/vector.h"

namespace brim::cpu::tiles {

/// Columns of C whose sums, with those of some rows, fill the registers.
inline constexpr int kMostVectors = kVectorBytes == 64 ? 4 : 2;
inline constexpr int64_t kPanel = kMostVectors * kLanes<Vector<float>>;

/// What rows of A and C there are: as many as `rows` says, which fill vectors, or some to spare up
/// to a multiple of kRowUnit, where nobody cares what they hold.
enum class Ends { exact, spare };
inline constexpr int64_t kRowUnit = kVectorBytes == 64 ? 24 : 6;

/// Rows of a tile of C with so many vectors.
constexpr int tile_rows(Ends ends, int vectors) {
  if (ends == Ends::exact) return vectors == kMostVectors ? 4 : 8;
  constexpr int kTwo = kVectorBytes == 64 ? 12 : 6;
  return vectors == 4 ? 6 : vectors == 3 ? 8 : kTwo;
}

/// C [rows, columns] = A B, or C += A B. Element (i, p) of A is a[i * a_row + p * a_step].
template <class T>
struct Product {
  const T* a;
  int64_t a_row, a_step;
  const T* b;
  int64_t b_row;
  T* c;
  int64_t c_row;
  int64_t rows, columns, depth;
};

/// Asks the memory for nothing.
struct NoPrefetch {
  void operator()(int64_t /*step*/, const void* /*b*/) const {}
};

/// Calls `body(row, vector)` for the vectors of a tile, each call by itself: a tile whose indices
/// are all known when it is compiled lies in registers, and is not cleared and read in memory.
template <int kRows, int kVectors, class Body>
inline void unrolled(const Body& body) {
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) body(i, v);
}

/// Adds up a tile of vectors or numbers, whose first element of A is at `a` and whose columns of B
/// begin at `b`. At each step `prefetch(step, columns of B)` may ask for what comes later.
template <int kRows, int kVectors, class V, class T, class Prefetch = NoPrefetch>
inline void sum_tile(const Product<T>& g, const T* a, const T* b, V (&sums)[kRows][kVectors],
                     const Prefetch& prefetch = {}) {
  for (int64_t p = 0; p < g.depth; ++p, a += g.a_step, b += g.b_row) {
    prefetch(p, b);
    V columns[kVectors];
    unrolled<1, kVectors>([&](int, int v) { columns[v] = load<V>(b + v * kLanes<V>); });
    unrolled<kRows, kVectors>([&](int i, int v) {
      sums[i][v] = fma(broadcast<V>(a[i * g.a_row]), columns[v], sums[i][v]);
    });
  }
}

template <bool kAdds, int kRows, int kVectors>
inline void multiply_tile(const Product<float>& g, const float* a, const float* b, float* c) {
  using V = Vector<float>;
  V sums[kRows][kVectors] = {};
  sum_tile(g, a, b, sums);
  unrolled<kRows, kVectors>([&](int i, int v) {
    float* to = c + i * g.c_row + v * kLanes<V>;
    store(to, kAdds ? load<V>(to) + sums[i][v] : sums[i][v]);
  });
}

template <Ends kEnds, bool kAdds, int kVectors = kMostVectors>
void multiply_panel(const Product<float>& g, int64_t column, int64_t vectors) {
  if constexpr (kVectors > 1)
    if (vectors < kVectors) return multiply_panel<kEnds, kAdds, kVectors - 1>(g, column, vectors);
  constexpr int kRows = tile_rows(kEnds, kVectors);
  for (int64_t i = 0; i < g.rows; i += kRows)
    multiply_tile<kAdds, kRows, kVectors>(g, g.a + i * g.a_row, g.b + column,
                                          g.c + i * g.c_row + column);
}

/// `columns` fill vectors.
template <Ends kEnds, bool kAdds>
void multiply(const Product<float>& g) {
  for (int64_t j = 0; j < g.columns; j += kPanel)
    multiply_panel<kEnds, kAdds>(
        g, j, std::min<int64_t>((g.columns - j) / kLanes<Vector<float>>, kMostVectors));
}

}  // namespace brim::cpu::tiles
