// The transforms of Winograd's F(2x2, 3x3). With d the 4x4 inputs of a tile, g the filter and y the
// 2x2 outputs,
//
//     y = A^T [(G g G^T) * (B^T d B)] A,        dg = G^T [(A dy A^T) * (B^T d B)] G,
//
// where * multiplies element by element. The matrices hold 0, 1, -1 and 1/2 alone, so the results
// are about as exact as those of a direct sum; larger tiles would lose digits.
#pragma once

#include "brim/ops/cpu/vector.h"

namespace brim::cpu::winograd {

inline constexpr int kOut = 2;     ///< outputs of a tile, each way
inline constexpr int kIn = 4;      ///< inputs of it, and elements after a transform
inline constexpr int kFilter = 3;  ///< taps of a filter
inline constexpr int kTaps = kFilter * kFilter;
inline constexpr int kElements = kIn * kIn;

// Each takes a row or a column of vectors of channels; both ways in turn it is the whole.

/// B^T.
template <class V>
inline void transform_input(const V (&d)[kIn], V (&to)[kIn]) {
  to[0] = d[0] - d[2];
  to[1] = d[1] + d[2];
  to[2] = d[2] - d[1];
  to[3] = d[1] - d[3];
}

/// A^T.
template <class V>
inline void transform_to_output(const V (&m)[kIn], V (&y)[kOut]) {
  y[0] = m[0] + m[1] + m[2];
  y[1] = m[1] - m[2] - m[3];
}

/// A.
template <class V>
inline void transform_output_gradient(const V (&dy)[kOut], V (&to)[kIn]) {
  to[0] = dy[0];
  to[1] = dy[0] + dy[1];
  to[2] = dy[0] - dy[1];
  to[3] = -dy[1];
}

/// G.
template <class V>
inline void transform_filter(const V (&g)[kFilter], V (&to)[kIn]) {
  const V ends = (g[0] + g[2]) * broadcast<V>(0.5f), middle = g[1] * broadcast<V>(0.5f);
  to[0] = g[0];
  to[1] = ends + middle;
  to[2] = ends - middle;
  to[3] = g[2];
}

/// G^T.
template <class V>
inline void transform_to_filter_gradient(const V (&u)[kIn], V (&dg)[kFilter]) {
  const V sum = (u[1] + u[2]) * broadcast<V>(0.5f);
  dg[0] = u[0] + sum;
  dg[1] = (u[1] - u[2]) * broadcast<V>(0.5f);
  dg[2] = sum + u[3];
}

/// Both ways: `to[i][j]` from `from[i][j]`, by a transform of kFrom to kTo vectors.
template <int kFrom, int kTo, class V>
inline void transform_square(void (&transform)(const V (&)[kFrom], V (&)[kTo]),
                             const V (&from)[kFrom][kFrom], V (&to)[kTo][kTo]) {
  V rows[kTo][kFrom];
  for (int j = 0; j < kFrom; ++j) {
    V column[kFrom], result[kTo];
    for (int i = 0; i < kFrom; ++i) column[i] = from[i][j];
    transform(column, result);
    for (int i = 0; i < kTo; ++i) rows[i][j] = result[i];
  }
  for (int i = 0; i < kTo; ++i) transform(rows[i], to[i]);
}

}  // namespace brim::cpu::winograd
