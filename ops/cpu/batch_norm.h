// What the forward and backward kernels of batch norm share: the coefficients per channel, the
// formula they are for, and the activations. Backward computes the formula again to take the
// derivative of the activation there, which is right only because it has the same bits: so it is
// written once, here. The op is ops/batch_norm.h; sums over pixels are in channel_sums.h.
#pragma once

#include <cmath>
#include <type_traits>

#include "brim/ops/activation_functors.h"
#include "brim/ops/batch_norm.h"
#include "brim/ops/cpu/channel_moments.h"
#include "brim/ops/cpu/channel_rows.h"
#include "brim/ops/norm_formula.h"

namespace brim::cpu {

/// Mean and variance of each channel of x, in one sweep; bytes of scratch. S: float or double;
/// of others `kernel::batch_norm_statistics`.
template <class S>
int64_t channel_statistics_scratch(const ChannelRows& rows);
template <class S>
void channel_statistics(const ChannelRows& rows, const S* x, const BatchStatistics& to,
                        void* scratch);

/// y = (x - mean) * scale + shift, before residual and activation: a `NormChannel` for each.
template <class T>
struct NormCoefficients {
  T *mean, *scale, *shift;  ///< repeated to the length of a row

  NormCoefficients(ScratchCursor& scratch, const ChannelRows& rows)
      : mean(rows.take_row<T>(scratch)),
        scale(rows.take_row<T>(scratch)),
        shift(rows.take_row<T>(scratch)) {}

  void set(const ChannelRows& rows, const View& weight, const View& bias, const View& means,
           const View& variances, double epsilon) {
    const auto set_each = [&, m = means.as<double>(), v = variances.as<double>()](
                              const auto& weight_of, const auto& bias_of) {
#pragma omp simd
      for (int64_t c = 0; c < rows.channels; ++c) {
        const NormChannel<T> channel =
            norm_channel<T>(m[c], v[c], weight_of(c), bias_of(c), epsilon);
        mean[c] = channel.mean;
        scale[c] = channel.scale;
        shift[c] = channel.shift;
      }
    };
    with_elements<T>(weight, [&](const auto& weight_of) {
      with_elements<T>(bias, [&](const auto& bias_of) { set_each(weight_of, bias_of); });
    });
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

/// `body(std::integral_constant<Activation, ...>())`, for loops that are compiled for each.
template <class Body>
void with_activation(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::none:
      return body(std::integral_constant<Activation, Activation::none>());
    case Activation::relu:
      return body(std::integral_constant<Activation, Activation::relu>());
    case Activation::relu6:
      return body(std::integral_constant<Activation, Activation::relu6>());
    case Activation::hardswish:
      return body(std::integral_constant<Activation, Activation::hardswish>());
  }
}

/// dy times the derivative of the activation at z; relu and relu6 take activate(z) as well.
template <class V>
inline V activate_backward(Activation activation, V dy, V z) {
  if (activation == Activation::relu) return functor::ReluBackward()(dy, z);
  if (activation == Activation::relu6) return functor::Relu6Backward()(dy, z);
  if (activation == Activation::hardswish) return functor::HardswishBackward()(dy, z);
  return dy;
}

}  // namespace brim::cpu
