// Mean and variance of each channel from those of parts of the pixels, for the statistics of batch
// norm: of a kernel of their own (ops/cpu/batch_norm.cc), or of a convolution that gathers them
// while its results are still in registers. Parts are a function of the sizes alone, and joined in
// order, so that the result does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/vector.h"

namespace brim::cpu {

/// What a convolution sums of its results while they are in registers: for the norm behind it, or,
/// where they are the gradient of what a norm gave, for that norm's gradient.
enum class Gathers { nothing, statistics, norm_sums };

/// Where the statistics of a batch go, [channels] each; null where nobody wants them.
struct BatchStatistics {
  double *mean = nullptr, *variance = nullptr;
  bool are_wanted() const { return mean != nullptr; }
};

/// Pixels of a part that a convolution gathers: fewer where there are few, so that threads have
/// equal shares.
inline int64_t pixels_of_part(int64_t pixels) { return pixels < 4096 ? 24 : 192; }

/// Of part i of the pixels: the mean of channel c is mean[i * step + c], and square the sum of the
/// squares around it.
struct PartMoments {
  double *mean = nullptr, *square = nullptr;
  int64_t parts = 0, channels = 0, step = 0;

  PartMoments() = default;
  PartMoments(int64_t count, int64_t of_channels, ScratchCursor& scratch)
      : mean(scratch.take<double>(count * of_channels)),
        square(scratch.take<double>(count * of_channels)),
        parts(count),
        channels(of_channels),
        step(of_channels) {}

  /// Sets a part of `pixels` from sums of d = x - shift and of its squares, which are exact as far
  /// as the shift is near the mean.
  void set(int64_t part, int64_t channel, double pixels, double shift, double sum,
           double sum_of_squares) const {
    const double own = sum / pixels;
    mean[part * step + channel] = shift + own;
    square[part * step + channel] = sum_of_squares - sum * own;
  }
};

/// The mean and the biased variance of all parts, part i of `pixels_of(i)` pixels: Chan, Golub and
/// LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
template <class PixelsOf>
void join_moments(const PartMoments& of, const PixelsOf& pixels_of, const BatchStatistics& to) {
  constexpr int64_t kGrain = 8192;  // numbers
  double n = 0;
  for (int64_t part = 0; part < of.parts; ++part) n += static_cast<double>(pixels_of(part));
  parallel_for(of.channels, kGrain / of.parts + 1, [&](int64_t begin, int64_t end) {
    std::fill(to.mean + begin, to.mean + end, 0.0);
    std::fill(to.variance + begin, to.variance + end, 0.0);
    for (int64_t part = 0; part < of.parts; ++part) {
      const auto count = static_cast<double>(pixels_of(part));
      for (int64_t c = begin; c < end; ++c) to.mean[c] += count * of.mean[part * of.step + c];
    }
    for (int64_t c = begin; c < end; ++c) to.mean[c] /= n;
    for (int64_t part = 0; part < of.parts; ++part) {
      const auto count = static_cast<double>(pixels_of(part));
      for (int64_t c = begin; c < end; ++c) {
        const double off = of.mean[part * of.step + c] - to.mean[c];
        to.variance[c] += of.square[part * of.step + c] + count * off * off;
      }
    }
    for (int64_t c = begin; c < end; ++c) to.variance[c] = std::max(to.variance[c] / n, 0.0);
  });
}

/// The sums of one part, of at most 256 pixels or so, as vectors of channels come by.
struct PartSums {
  float *shift, *sum, *square;

  PartSums(int64_t channels, ScratchCursor& scratch)
      : shift(scratch.take<float>(channels)),
        sum(scratch.take<float>(channels)),
        square(scratch.take<float>(channels)) {}

  /// Adds pixels of some channels. The mean of the first that come is the shift.
  template <int kPixels>
  void add(const Vector<float> (&values)[kPixels], int64_t channel, bool is_first) const {
    using V = Vector<float>;
    V one{}, two{}, middle{};
    if (is_first) {
      for (const V& value : values) middle += value;
      middle *= broadcast<V>(1.0f / kPixels);
      store(shift + channel, middle);
    } else {
      middle = load<V>(shift + channel);
      one = load<V>(sum + channel);
      two = load<V>(square + channel);
    }
    for (const V& value : values) {
      const V d = value - middle;
      one += d;
      two = fma(d, d, two);
    }
    store(sum + channel, one);
    store(square + channel, two);
  }

  /// Of channels [0, count), which are [begin, begin + count) of all.
  void finish(const PartMoments& to, int64_t part, int64_t pixels, int64_t begin,
              int64_t count) const {
    for (int64_t c = 0; c < count; ++c)
      to.set(part, begin + c, static_cast<double>(pixels), static_cast<double>(shift[c]),
             static_cast<double>(sum[c]), static_cast<double>(square[c]));
  }
};

}  // namespace brim::cpu
