// What the forward and backward kernels of batch norm share: the coefficients per channel, the
// formula they are for, and the activations. Backward computes the formula again to take the
// derivative of the activation there, which is right only because it has the same bits: so it is
// written once, here. The op is ops/batch_norm.h; sums over pixels are in channel_sums.h.
#pragma once

#include <cmath>

#include "brim/ops/batch_norm.h"
#include "brim/ops/activation_functors.h"
#include "brim/ops/cpu/channel_rows.h"

namespace brim::cpu {

/// y = (x - mean) * scale + shift, before residual and activation. The mean is rounded to T, and
/// what is lost there is in the shift: x - mean is then exact for x near a large mean.
template <class T>
struct NormCoefficients {
  T *mean, *scale, *shift;  ///< repeated to the length of a row

  NormCoefficients(ScratchCursor& scratch, const ChannelRows& rows)
      : mean(rows.take_row<T>(scratch)),
        scale(rows.take_row<T>(scratch)),
        shift(rows.take_row<T>(scratch)) {}

  void set(const ChannelRows& rows, const View& weight, const View& bias, const View& means,
           const View& variances, double epsilon) {
    for (int64_t c = 0; c < rows.channels; ++c) {
      double m = means.as<double>()[c];
      double s = element(weight, c) / std::sqrt(variances.as<double>()[c] + epsilon);
      mean[c] = static_cast<T>(m);
      scale[c] = static_cast<T>(s);
      double lost = static_cast<double>(mean[c]) - m;
      shift[c] = static_cast<T>((bias.present ? element(bias, c) : 0) + lost * s);
    }
    for (T* row : {mean, scale, shift}) rows.repeat(row);
  }
};

/// Before the activation. Backward finds the same bits with the same formula.
template <class V>
inline V normalized(V x, V mean, V scale, V shift) {
  return fma(x - mean, scale, shift);
}

template <Activation activation, class V>
inline V activate(V z) {
  if constexpr (activation == Activation::relu) return functor::Relu()(z);
  if constexpr (activation == Activation::relu6) return functor::Relu6()(z);
  if constexpr (activation == Activation::hardswish) return functor::Hardswish()(z);
  return z;
}

/// dy times the derivative of the activation at z; relu and relu6 take activate(z) as well.
template <Activation activation, class V>
inline V activate_backward(V dy, V z) {
  if constexpr (activation == Activation::relu) return functor::ReluBackward()(dy, z);
  if constexpr (activation == Activation::relu6) return functor::Relu6Backward()(dy, z);
  if constexpr (activation == Activation::hardswish) return functor::HardswishBackward()(dy, z);
  return dy;
}

}  // namespace brim::cpu
