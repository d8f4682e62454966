// Filters of Winograd's method: their elements, laid out for matrix products.
#pragma once

#include <algorithm>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/ops/cpu/tile_product.h"
#include "brim/ops/cpu/transpose.h"
#include "brim/ops/cpu/winograd_grid.h"

namespace brim::cpu::winograd {

/// Elements of some outputs' filters, [panel of outputs][element][input][output of the panel]. The
/// matrices are a line longer than they need be, so that they do not compete for the same lines of
/// a cache.
class Filters {
 public:
  Filters(float* data, int elements, int64_t inputs, int64_t outputs)
      : data_(data), elements_(elements), inputs_(inputs), outputs_(outputs) {}

  /// Floats that they take, in panels of so many outputs.
  static int64_t count(int elements, int64_t inputs, int64_t outputs,
                       int64_t panel = tiles::kPanel) {
    return elements * (inputs * outputs + ceil_div(outputs, panel) * kLine);
  }

  /// Of the panel with this output.
  int64_t width(int64_t output) const {
    return std::min(tiles::kPanel, outputs_ - output / tiles::kPanel * tiles::kPanel);
  }
  int64_t matrix(int64_t output) const { return inputs_ * width(output) + kLine; }
  float* of(int e, int64_t input, int64_t output) const {
    const int64_t panel = output / tiles::kPanel;
    return data_ + panel * elements_ * (inputs_ * tiles::kPanel + kLine) + e * matrix(output) +
           input * width(output) + output - panel * tiles::kPanel;
  }

  /// Sets the elements of a vector of outputs from their taps.
  template <int kIn, class Tap>
  void set(int64_t input, int64_t output, const Tap& tap) const {
    const int64_t step = matrix(output), next = width(output);
    float* to = of(0, input, output);
    transform_square<kFilter, kIn>(transform_filter<V>, tap, [&](int, const V(&row)[kIn]) {
      for (int j = 0; j < kIn; ++j, to += step) {
        store(to, row[j]);
        __builtin_prefetch(to + next);  // too many streams to be foreseen
      }
    });
  }

 private:
  float* data_;
  int elements_;
  int64_t inputs_, outputs_;
};

/// Filters of the outputs from weight [output][3][3][input]: vectors of inputs become vectors of
/// outputs.
template <int kIn>
void transform_filters(const float* weight, Channels outputs, int64_t inputs, const Filters& to) {
  parallel_for(outputs.count / kWidth, 1, [&](int64_t begin, int64_t end) {
    V taps[kTaps][kWidth];
    for (int64_t k = begin * kWidth; k < end * kWidth; k += kWidth)
      for (int64_t c = 0; c < inputs; c += kWidth) {
        for (int at = 0; at < kTaps; ++at) {
          for (int64_t i = 0; i < kWidth; ++i)
            taps[at][i] = load<V>(weight + ((outputs.begin + k + i) * kTaps + at) * inputs + c);
          transpose(taps[at]);
        }
        for (int64_t i = 0; i < kWidth; ++i)
          to.set<kIn>(c + i, k, [&](int r, int s) { return taps[r * kFilter + s][i]; });
      }
  });
}

/// Those of the data gradient from weight [input][3][3][channels], of which the outputs are some,
/// turned by half a circle.
template <int kIn>
void transform_turned_filters(const float* weight, Channels outputs, int64_t inputs,
                              int64_t channels, const Filters& to) {
  constexpr int64_t kGrain = 8;
  parallel_for(inputs, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k)
      for (int64_t c = 0; c < outputs.count; c += kWidth) {
        const float* last = weight + (k * kTaps + kTaps - 1) * channels + outputs.begin + c;
        to.set<kIn>(k, c,
                    [&](int r, int s) { return load<V>(last - (r * kFilter + s) * channels); });
      }
  });
}

}  // namespace brim::cpu::winograd
