// The transforms of Winograd's F(2x2, 3x3) and F(4x4, 3x3). With d the inputs of a tile, g the
// filter and y the outputs,
//
//     y = A^T [(G g G^T) * (B^T d B)] A,        dg = G^T [(A dy A^T) * (B^T d B)] G,
//
// where * multiplies element by element. The matrices come from points at which polynomials are
// evaluated (Toom and Cook): 0, 1, -1 and infinity for two outputs, 1/2 and -2 as well for four.
// With the more usual 2 and -2 larger numbers cancel each other, and errors are half as large again
// or more.
//
// B. Barabasz, A. Anderson, K. Soodhalter, D. Gregg, "Error analysis and improving the accuracy of
// Winograd convolution for deep neural networks", 2018.
#pragma once

#include "brim/ops/cpu/vector.h"

namespace brim::cpu::winograd {

inline constexpr int kFilter = 3;  ///< taps of a filter, each way
inline constexpr int kTaps = kFilter * kFilter;

// Each takes a row or a column of vectors of channels; both ways in turn it is the whole. With two
// outputs there are four inputs of a tile, and as many elements; with four there are six.

/// B^T.
template <class V>
inline void transform_input(const V (&d)[4], V (&to)[4]) {
  to[0] = d[0] - d[2];
  to[1] = d[1] + d[2];
  to[2] = d[2] - d[1];
  to[3] = d[1] - d[3];
}
/// 1 -3/2   -2  3/2    1    0
/// 0   -1  1/2  5/2    1    0
/// 0    1 -5/2  1/2    1    0
/// 0   -2   -1    2    1    0
/// 0  1/2   -1 -1/2    1    0
/// 0    1 -3/2   -2  3/2    1
template <class V>
inline void transform_input(const V (&d)[6], V (&to)[6]) {
  const V more = broadcast<V>(1.5f), odd = d[3] - d[1], even = d[4] - d[2];
  to[0] = fma(more, odd, (d[0] - d[2]) + even);
  to[1] = fma(more, d[2] + d[3], even + odd);
  to[2] = fma(more, d[3] - d[2], even - odd);
  to[3] = even + (odd + odd);
  to[4] = fma(broadcast<V>(-0.5f), odd, even);
  to[5] = fma(more, even, (d[5] - d[3]) - odd);
}

/// A^T.
template <class V>
inline void transform_to_output(const V (&m)[4], V (&y)[2]) {
  y[0] = m[0] + m[1] + m[2];
  y[1] = m[1] - m[2] - m[3];
}
/// 1 1  1   1  1 0
/// 0 1 -1 1/2 -2 0
/// 0 1  1 1/4  4 0
/// 0 1 -1 1/8 -8 1
template <class V>
inline void transform_to_output(const V (&m)[6], V (&y)[4]) {
  const V sum = m[1] + m[2], difference = m[1] - m[2];
  y[0] = (m[0] + sum) + (m[3] + m[4]);
  y[1] = fma(broadcast<V>(-2.0f), m[4], fma(broadcast<V>(0.5f), m[3], difference));
  y[2] = fma(broadcast<V>(4.0f), m[4], fma(broadcast<V>(0.25f), m[3], sum));
  y[3] = fma(broadcast<V>(-8.0f), m[4], fma(broadcast<V>(0.125f), m[3], difference)) + m[5];
}

/// A.
template <class V>
inline void transform_output_gradient(const V (&dy)[2], V (&to)[4]) {
  to[0] = dy[0];
  to[1] = dy[0] + dy[1];
  to[2] = dy[0] - dy[1];
  to[3] = -dy[1];
}
template <class V>
inline void transform_output_gradient(const V (&dy)[4], V (&to)[6]) {
  const auto at = [&](float point) {
    const V x = broadcast<V>(point);
    return fma(x, fma(x, fma(x, dy[3], dy[2]), dy[1]), dy[0]);
  };
  const V even = dy[0] + dy[2], odd = dy[1] + dy[3];
  to[0] = dy[0];
  to[1] = even + odd;
  to[2] = even - odd;
  to[3] = at(0.5f);
  to[4] = at(-2.0f);
  to[5] = dy[3];
}

/// G.
template <class V>
inline void transform_filter(const V (&g)[3], V (&to)[4]) {
  const V ends = (g[0] + g[2]) * broadcast<V>(0.5f), middle = g[1] * broadcast<V>(0.5f);
  to[0] = g[0];
  to[1] = ends + middle;
  to[2] = ends - middle;
  to[3] = g[2];
}
///      1     0     0
///    1/3   1/3   1/3
///   -1/3   1/3  -1/3
/// -16/15 -8/15 -4/15
///   1/15 -2/15  4/15
///      0     0     1
template <class V>
inline void transform_filter(const V (&g)[3], V (&to)[6]) {
  const V ends = g[0] + g[2], two = broadcast<V>(2.0f), four = broadcast<V>(4.0f);
  to[0] = g[0];
  to[1] = (ends + g[1]) * broadcast<V>(1 / 3.0f);
  to[2] = (g[1] - ends) * broadcast<V>(1 / 3.0f);
  to[3] = fma(four, g[0], fma(two, g[1], g[2])) * broadcast<V>(-4 / 15.0f);
  to[4] = fma(four, g[2], fma(-two, g[1], g[0])) * broadcast<V>(1 / 15.0f);
  to[5] = g[2];
}

/// G^T.
template <class V>
inline void transform_to_filter_gradient(const V (&u)[4], V (&dg)[3]) {
  const V sum = (u[1] + u[2]) * broadcast<V>(0.5f);
  dg[0] = u[0] + sum;
  dg[1] = (u[1] - u[2]) * broadcast<V>(0.5f);
  dg[2] = sum + u[3];
}
template <class V>
inline void transform_to_filter_gradient(const V (&u)[6], V (&dg)[3]) {
  const V two = broadcast<V>(2.0f), four = broadcast<V>(4.0f);
  const V difference = (u[1] - u[2]) * broadcast<V>(1 / 3.0f);
  const V half = u[3] * broadcast<V>(-4 / 15.0f), minus_two = u[4] * broadcast<V>(1 / 15.0f);
  dg[0] = u[0] + difference + fma(four, half, minus_two);
  dg[1] = fma(two, half - minus_two, (u[1] + u[2]) * broadcast<V>(1 / 3.0f));
  dg[2] = difference + fma(four, minus_two, half) + u[5];
}

/// Both ways, by a transform of kFrom to kTo vectors: from `from(i, j)` to `put(i, row)`, row by
/// row. The loops are unrolled, and a row is put before the next is made: with AVX-512 all vectors
/// have a register.
template <int kFrom, int kTo, class V, class From, class Put>
[[gnu::always_inline]] inline void transform_square(void (&transform)(const V (&)[kFrom],
                                                                      V (&)[kTo]),
                                                    const From& from, const Put& put) {
  V rows[kTo][kFrom];
#pragma GCC unroll 8
  for (int j = 0; j < kFrom; ++j) {
    V column[kFrom], result[kTo];
#pragma GCC unroll 8
    for (int i = 0; i < kFrom; ++i) column[i] = from(i, j);
    transform(column, result);
#pragma GCC unroll 8
    for (int i = 0; i < kTo; ++i) rows[i][j] = result[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTo; ++i) {
    V row[kTo];
    transform(rows[i], row);
    put(i, row);
  }
}

}  // namespace brim::cpu::winograd
