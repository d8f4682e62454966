// What the backward passes of batch norm share: from sums over the pixels to gradients of weight
// and bias, and to the coefficients of dx. The sums are of g, the gradient of what went into the
// activation, and of g * (x - mean); who takes them is batch_norm_backward.cc, for a dy in memory,
// or a kernel that makes dy itself (normalized_backward.h).
#pragma once

#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/ops/cpu/batch_norm.h"

namespace brim::cpu {

/// The sums of all pixels, [channels] each, from those of parts of them, one after another: of each
/// those of g, and behind them those of g * (x - mean).
template <class T>
void join_norm_sums(const T* of_parts, int64_t parts, int64_t channels, double* sum_g,
                    double* sum_gx) {
  constexpr int64_t kGrain = 16384;  // numbers
  parallel_for(channels, kGrain / parts + 1, [=](int64_t begin, int64_t end) {
    std::fill(sum_g + begin, sum_g + end, 0.0);
    std::fill(sum_gx + begin, sum_gx + end, 0.0);
    for (int64_t part = 0; part < parts; ++part) {
      const T *g = of_parts + part * 2 * channels, *gx = g + channels;
      for (int64_t c = begin; c < end; ++c) {
        sum_g[c] += static_cast<double>(g[c]);
        sum_gx[c] += static_cast<double>(gx[c]);
      }
    }
  });
}

/// dx = g * scale + (x - mean) * slope + level, with the scale of `NormCoefficients`.
template <class T>
struct GradientCoefficients {
  T *slope, *level;  ///< repeated to the length of a row

  GradientCoefficients(ScratchCursor& scratch, const ChannelRows& rows)
      : slope(rows.take_row<T>(scratch)), level(rows.take_row<T>(scratch)) {}
};

/// dx without the coefficients of the forward pass.
template <class V>
inline V tilted(V value, V x_less_mean, V slope, V level) {
  return value + fma(x_less_mean, slope, level);
}

/// Of a norm: without a weight nobody wants dx, without a mean only dbias. [C], float64 but for the
/// weight.
struct NormViews {
  View weight, mean, variance;
  double epsilon;
};

/// Sets what is wanted from the sums over all pixels, [C]; dweight and dbias may be absent.
template <class T>
void finish_norm_sums(const ChannelRows& rows, const double* sum_g, const double* sum_gx,
                      const NormViews& norm, const View& dweight, const View& dbias,
                      const GradientCoefficients<T>& to) {
  const auto n = static_cast<double>(std::max<int64_t>(rows.pixels, 1));
  if (dbias.present) set_elements(dbias, [=](int64_t c) { return sum_g[c]; });
  if (!norm.mean.present) return;
  const double *m = norm.mean.as<double>(), *v = norm.variance.as<double>();
  // As in the forward pass the mean is rounded.
  const auto by_weight = [=, epsilon = norm.epsilon](int64_t c) {
    return weight_gradient({sum_g[c], sum_gx[c]}, m[c], static_cast<T>(m[c]), v[c], epsilon);
  };
  if (dweight.present) set_elements(dweight, by_weight);
  if (!norm.weight.present) return;
  with_elements<T>(norm.weight, [=, epsilon = norm.epsilon, channels = rows.channels,
                                 slope = to.slope, level = to.level](const auto& weight_of) {
    for (int64_t c = 0; c < channels; ++c) {
      const NormGradient<T> gradient =
          norm_gradient({sum_g[c], sum_gx[c]}, by_weight(c), m[c], static_cast<T>(m[c]), v[c],
                        weight_of(c), epsilon, n);
      slope[c] = gradient.slope;
      level[c] = gradient.level;
    }
  });
  rows.repeat(to.slope);
  rows.repeat(to.level);
}

/// dx, from the g that is in its place; from the last pixel to the first.
template <class T>
void finish_norm_gradient(const ChannelRows& rows, const NormCoefficients<T>& norm,
                          const GradientCoefficients<T>& by, const T* x, T* dx) {
  for_rows_backwards(rows, [&](int64_t at, int64_t width) {
    put_row(dx, at, width, false, [&]<class V>(int64_t i) {
      prefetch_ahead(x + at + i);
      prefetch_ahead(dx + at + i);
      return tilted(load<V>(norm.scale + i) * load<V>(dx + at + i),
                    load<V>(x + at + i) - load<V>(norm.mean + i), load<V>(by.slope + i),
                    load<V>(by.level + i));
    });
  });
}

}  // namespace brim::cpu
