// Tiles of the gradient of what a norm gave, on their way from registers to memory: through the
// norm's activation, and into the sums that the norm's own gradient wants.
#pragma once

#include <algorithm>

#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/tile_product.h"

namespace brim::cpu {

/// Of some pixels, which are one unit of work: the sums of g, the gradient of what went into the
/// activation, and those of g * (x - mean).
struct NormPartSums {
  int64_t channels;
  float *g, *gx;

  NormPartSums(int64_t channels, ScratchCursor& scratch)
      : channels(channels), g(scratch.take<float>(channels)), gx(scratch.take<float>(channels)) {}
  void clear() const {
    for (float* sums : {g, gx}) std::fill_n(sums, channels, 0.0f);
  }
  /// Those of g, then those of g * (x - mean).
  void store_to(double* totals) const {
    std::copy_n(gx, channels, std::copy_n(g, channels, totals));
  }
};

/// The norm of `x`, and the memory that gets g, of the same shape: channels that fill vectors.
class GradientTiles {
 public:
  GradientTiles(const InputNorm& norm, const float* x, float* g, bool streams)
      : norm_(norm), x_(x), g_(g), streams_(streams) {}

  const float* x() const { return x_; }

  /// Rows of a tile belong at `to` of g, from channel `column` on.
  template <int kRows, int kVectors>
  [[gnu::noinline]] void put(const Vector<float> (&tile)[kRows][kVectors],
                             float* const (&to)[kRows], int64_t column,
                             const NormPartSums& sums) const {
    with_activation(norm_.activation(),
                    [&](auto activation) { put_with<activation()>(tile, to, column, sums); });
  }

 private:
  using V = Vector<float>;

  template <Activation activation, int kRows, int kVectors>
  void put_with(const V (&tile)[kRows][kVectors], float* const (&to)[kRows], int64_t column,
                const NormPartSums& sums) const {
    const NormCoefficients<float>& by = norm_.coefficients();
    V sum_g[kVectors] = {}, sum_gx[kVectors] = {};
    tiles::unrolled<kRows, kVectors>([&](int i, int v) {
      const int64_t at = v * kLanes<V>, c = column + at;
      const V mean = load<V>(by.mean + c), x = load<V>(x_ + (to[i] - g_) + at);
      const V z = normalized(x, mean, load<V>(by.scale + c), load<V>(by.shift + c));
      const V g = activate_backward(activation, tile[i][v], z);
      if (streams_)
        stream(to[i] + at, g);
      else
        store(to[i] + at, g);
      sum_g[v] += g;
      sum_gx[v] = fma(g, x - mean, sum_gx[v]);
    });
    tiles::unrolled<1, kVectors>([&](int, int v) {
      float *g = sums.g + column + v * kLanes<V>, *gx = sums.gx + column + v * kLanes<V>;
      store(g, load<V>(g) + sum_g[v]);
      store(gx, load<V>(gx) + sum_gx[v]);
    });
  }

  const InputNorm& norm_;
  const float* x_;
  float* g_;
  bool streams_;
};

}  // namespace brim::cpu
