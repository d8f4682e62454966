// Tiles of the gradient of what a norm gave, on their way from registers to memory: through the
// norm's activation, and into the sums that the norm's own gradient wants.
#pragma once

#include <cstdint>
#include <type_traits>

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
  Activation activation() const { return norm_.activation(); }

  /// Rows of a tile belong at `to` of g, from channel `column` on; past the caches, if `streaming`.
  /// Adds to sums of g and, behind them, of g * (x - mean).
  template <int kRows, int kVectors>
  [[gnu::noinline]] void put(const Vector<float> (&tile)[kRows][kVectors],
                             float* const (&to)[kRows], int64_t column, bool streaming,
                             float* sums) const {
    with_activation(norm_.activation(), [&](auto activation) {
      Sums of_vectors[kVectors] = {};
      tiles::unrolled<kRows, kVectors>([&](int i, int v) {
        const int64_t at = v * kLanes<V>;
        put_one<activation()>({tile[i][v], to[i] + at}, coefficients(column + at), streaming,
                              of_vectors[v]);
      });
      tiles::unrolled<1, kVectors>(
          [&](int, int v) { add(of_vectors[v], sums + column + v * kLanes<V>); });
    });
  }

  struct Pixel {
    Vector<float> value;
    float* to;
  };
  /// The same of a vector of channels of some pixels, `pixel(i)` each, where the activation is
  /// known: of values that lie in registers. Count: a number, or a constant of that type.
  template <Activation activation, class Count, class PixelAt>
  [[gnu::always_inline]] void put_pixels([[maybe_unused]] Count count, const PixelAt& pixel,
                                         int64_t channel, bool streaming, float* sums) const {
    const Coefficients by = coefficients(channel);
    Sums of_pixels;
    const auto put = [&](int i, int) __attribute__((always_inline)) {
      put_one<activation>(pixel(i), by, streaming, of_pixels);
    };
    if constexpr (requires { Count::value; })
      tiles::unrolled<Count::value, 1>(put);
    else
      for (int i = 0; i < count; ++i) put(i, 0);
    add(of_pixels, sums + channel);
  }

 private:
  using V = Vector<float>;
  struct Sums {
    V g{}, gx{};
  };
  struct Coefficients {
    V mean, scale, shift;
  };

  [[gnu::always_inline]] Coefficients coefficients(int64_t channel) const {
    const NormCoefficients<float>& by = norm_.coefficients();
    return {load<V>(by.mean + channel), load<V>(by.scale + channel), load<V>(by.shift + channel)};
  }
  template <Activation activation>
  [[gnu::always_inline]] void put_one(const Pixel& pixel, const Coefficients& by, bool streaming,
                                      Sums& sums) const {
    const V x = load<V>(x_ + (pixel.to - g_));
    const V z = normalized(x, by.mean, by.scale, by.shift);
    const V g = activate_backward(activation, pixel.value, z);
    if (streaming)
      stream(pixel.to, g);
    else
      store(pixel.to, g);
    sums.g += g;
    sums.gx = fma(g, x - by.mean, sums.gx);
  }
  [[gnu::always_inline]] void add(const Sums& sums, float* to) const {
    store(to, load<V>(to) + sums.g);
    store(to + channels_, load<V>(to + channels_) + sums.gx);
  }

  const InputNorm& norm_;
  int64_t channels_;
  const float* x_;
  float* g_;
};

}  // namespace brim::cpu
