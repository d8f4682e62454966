// What batch norm computes for one channel, and group norm for one group, the same on every device:
// coefficients of their sweeps, and how running statistics move. For kernels; the ops are
// ops/batch_norm.h and ops/group_norm.h. Backward of batch norm finds what went into an activation
// by the coefficients of forward, and so needs their bits.
#pragma once

#include <cmath>

#include "brim/base/host_device.h"
#include "brim/ops/batch_norm.h"

namespace brim {

/// y = (x - mean) * scale + shift. The mean is rounded to T, and what is lost there is in the
/// shift: x - mean is then exact for x near a large mean.
template <class T>
struct NormChannel {
  T mean, scale, shift;
};

template <class T>
BRIM_HOST_DEVICE NormChannel<T> norm_channel(double mean, double variance, double weight,
                                             double bias, double epsilon) {
  const double scale = weight / std::sqrt(variance + epsilon);
  const T rounded = static_cast<T>(mean);
  const double lost = static_cast<double>(rounded) - mean;
  return {rounded, static_cast<T>(scale), static_cast<T>(bias + lost * scale)};
}

/// Sums over the pixels of a channel: of g, the gradient of what went into the activation, and of
/// g * (x - the rounded mean).
struct NormSums {
  double g, gx;
};

/// dweight.
template <class T>
BRIM_HOST_DEVICE double weight_gradient(const NormSums& sums, double mean, T rounded_mean,
                                        double variance, double epsilon) {
  const double lost = static_cast<double>(rounded_mean) - mean;
  return 1 / std::sqrt(variance + epsilon) * (sums.gx + lost * sums.g);
}

/// dx = g * scale + (x - mean) * slope + level, over n pixels.
template <class T>
struct NormGradient {
  T slope, level;
};

template <class T>
BRIM_HOST_DEVICE NormGradient<T> norm_gradient(const NormSums& sums, double dweight, double mean,
                                               T rounded_mean, double variance, double weight,
                                               double epsilon, double n) {
  const double inverse = 1 / std::sqrt(variance + epsilon);
  const double lost = static_cast<double>(rounded_mean) - mean;
  const double scale = weight * inverse, tilt = -scale * inverse * dweight / n;
  return {static_cast<T>(tilt), static_cast<T>(tilt * lost - scale * sums.g / n)};
}

/// Of the first part of a batch, or of all of it.
template <class T>
BRIM_HOST_DEVICE void move_running(const kernel::RunningStatisticsAttributes& by, double mean,
                                   double variance, T& running_mean, T& running_var) {
  const double keep = 1 - by.momentum, weight = by.momentum * by.part;
  running_mean = static_cast<T>(keep * static_cast<double>(running_mean) + weight * mean);
  running_var =
      static_cast<T>(keep * static_cast<double>(running_var) + weight * (variance * by.correction));
}

/// Of a later part; `start` is the running mean before the first. What `running_mean` has beyond it
/// is momentum * before * the mean of the parts so far. The momentum is not 0.
template <class T>
BRIM_HOST_DEVICE void pool_running(const kernel::RunningStatisticsAttributes& by, double mean,
                                   double variance, double start, T& running_mean, T& running_var) {
  const double keep = 1 - by.momentum, weight = by.momentum * by.part;
  const double moved = static_cast<double>(running_mean) - keep * start;
  const double apart = mean - moved / (by.momentum * by.before);
  const double between = apart * apart * by.before / (by.before + by.part);
  running_mean = static_cast<T>(static_cast<double>(running_mean) + weight * mean);
  running_var = static_cast<T>(static_cast<double>(running_var) +
                               weight * (variance + between) * by.correction);
}

/// Of a group: xhat = (x - mean) * inverse + shift. Rounding is as in a `NormChannel`.
template <class T>
struct NormGroup {
  T mean, inverse, shift;
};

template <class T>
BRIM_HOST_DEVICE NormGroup<T> norm_group(double mean, double inverse) {
  const T rounded = static_cast<T>(mean);
  const double lost = static_cast<double>(rounded) - mean;
  return {rounded, static_cast<T>(inverse), static_cast<T>(lost * inverse)};
}

}  // namespace brim
