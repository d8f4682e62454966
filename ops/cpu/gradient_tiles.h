// Tiles of the gradient of what a norm gave, on their way from registers to memory: through the
// norm's activation, and into the sums that the norm's own gradient wants.
#pragma once

#include <cstdint>

#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/tile_product.h"

namespace brim::cpu {

/// The norm of `x`, and the memory that gets g, the gradient of what went into the activation, of
/// the same shape: channels that fill vectors.
class GradientTiles {
 public:
  GradientTiles(const InputNorm& norm, int64_t channels, const float* x, float* g)
      : norm_(norm), channels_(channels), x_(x), g_(g) {}

  const float* x() const { return x_; }

  /// Rows of a tile belong at `to` of g, from channel `column` on; past the caches, if `streaming`.
  /// Adds to sums of g and, behind them, of g * (x - mean).
  template <int kRows, int kVectors>
  [[gnu::noinline]] void put(const Vector<float> (&tile)[kRows][kVectors],
                             float* const (&to)[kRows], int64_t column, bool streaming,
                             float* sums) const {
    with_activation(norm_.activation(), [&](auto activation) {
      put_with<activation()>(tile, to, column, streaming, sums);
    });
  }

 private:
  using V = Vector<float>;

  template <Activation activation, int kRows, int kVectors>
  void put_with(const V (&tile)[kRows][kVectors], float* const (&to)[kRows], int64_t column,
                bool streaming, float* sums) const {
    const NormCoefficients<float>& by = norm_.coefficients();
    V sum_g[kVectors] = {}, sum_gx[kVectors] = {};
    tiles::unrolled<kRows, kVectors>([&](int i, int v) {
      const int64_t at = v * kLanes<V>, c = column + at;
      const V mean = load<V>(by.mean + c), x = load<V>(x_ + (to[i] - g_) + at);
      const V z = normalized(x, mean, load<V>(by.scale + c), load<V>(by.shift + c));
      const V g = activate_backward(activation, tile[i][v], z);
      if (streaming)
        stream(to[i] + at, g);
      else
        store(to[i] + at, g);
      sum_g[v] += g;
      sum_gx[v] = fma(g, x - mean, sum_gx[v]);
    });
    tiles::unrolled<1, kVectors>([&](int, int v) {
      float *g = sums + column + v * kLanes<V>, *gx = g + channels_;
      store(g, load<V>(g) + sum_g[v]);
      store(gx, load<V>(gx) + sum_gx[v]);
    });
  }

  const InputNorm& norm_;
  int64_t channels_;
  const float* x_;
  float* g_;
};

}  // namespace brim::cpu
