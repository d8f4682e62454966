// What the forward and backward kernels of batch norm share: the coefficients per channel.
#pragma once

#include <cmath>

#include "brim/ops/batch_norm.h"
#include "brim/ops/cpu/channel_rows.h"

namespace brim::cpu {

/// y = (x - mean) * scale + shift, before residual and activation. The mean is rounded to T, and
/// what is lost there is in the shift: x - mean is then exact for x near a large mean.
template <class T>
struct NormCoefficients {
  T *mean, *scale, *shift;  ///< repeated to the length of a row

  NormCoefficients(ScratchCursor& scratch, const ChannelRows& rows)
      : mean(scratch.take<T>(rows.length)),
        scale(scratch.take<T>(rows.length)),
        shift(scratch.take<T>(rows.length)) {}

  void set(const ChannelRows& rows, const View& weight, const View& bias, const View& means,
           const View& variances, double epsilon) {
    for (int64_t i = 0; i < rows.length && rows.channels > 0; ++i) {
      int64_t c = i % rows.channels;
      double m = means.as<double>()[c];
      double s = element(weight, c) / std::sqrt(variances.as<double>()[c] + epsilon);
      mean[i] = static_cast<T>(m);
      scale[i] = static_cast<T>(s);
      double lost = static_cast<double>(mean[i]) - m;
      shift[i] = static_cast<T>((bias.present ? element(bias, c) : 0) + lost * s);
    }
  }
};

/// Before the activation. Backward finds the same bits with the same formula.
template <class V>
inline V normalized(V x, V mean, V scale, V shift) {
  return fma(x - mean, scale, shift);
}

}  // namespace brim::cpu
