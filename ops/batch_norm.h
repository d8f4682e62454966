// Batch normalisation over all axes but the last, with an optional residual and activation in the
// same call. Ioffe and Szegedy, "Batch Normalization: Accelerating Deep Network Training by
// Reducing Internal Covariate Shift", ICML 2015.
//
// The residual and the activation are fused because they are free there: the statistics cost one
// reading of x, unless they are given, and everything else happens while y is written.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"
#include "brim/ops/activation.h"

namespace brim {

struct BatchNormOptions {
  Tensor residual = {};  ///< added before the activation; of x's shape and dtype, or undefined
  Activation activation = Activation::none;
  /// Normalise by the statistics of the batch and move the running ones towards them; else by
  /// the running ones, which stay.
  bool training = true;
  double momentum = 0.1;  ///< running = (1 - momentum) * running + momentum * batch
  double epsilon = 1e-5;
  /// Those of the batch, where whoever made x knows them (`conv2d_with_statistics`): biased,
  /// float64 [C], beside x. No gradient flows to them: that of x has their part in it. Not used in
  /// evaluation, nor under autocast.
  Tensor mean = {}, variance = {};
};

/// y = activation((x - mean) / sqrt(variance + epsilon) * weight + bias + residual), per channel.
///
/// x is [..., C] of a floating dtype; weight, bias, running_mean and running_var are [C], float64
/// when x is and else float32. In training, mean and (biased) variance are those of the batch, and
/// the running ones move by `momentum`, the variance with Bessel's correction; both running
/// tensors may then be undefined. Their change is an effect: it happens once, goes through
/// `autograd::effect_target`, and not again when the op is replayed.
///
/// Saves x, weight and the statistics; for an activation also bias, to find again what went into
/// it. With a residual, relu and relu6 save the result y in place of bias: its value tells where
/// they were flat. Where y was dropped and the residual is there, backward takes bias and residual
/// instead. That of hardswish does not tell, which falls and rises again: it saves bias and the
/// residual.
///
/// Throws `ShapeError`, `DtypeError` or `DeviceError` for tensors that do not go together, and
/// `ValueError` in training when a channel has a single value (its variance means nothing) or the
/// given mean and variance are not what they are said to be, for an epsilon that is not positive or
/// a momentum outside [0, 1].
Tensor batch_norm(Tensor x, Tensor weight, Tensor bias, Tensor running_mean, Tensor running_var,
                  BatchNormOptions options = {}, Where where = Where::current());

namespace kernel {

struct BatchNormAttributes {
  double epsilon = 1e-5;
  Activation activation = Activation::none;
  bool training = true;  ///< backward: do mean and variance depend on x?
};
/// in: x [..., C]; out: mean, variance (biased), float64 [C]. x is contiguous, as everywhere here.
inline constexpr Kernel<NoAttributes> batch_norm_statistics{"batch_norm_statistics"};
/// in: x, weight, bias, mean, variance, residual or absent; out: y, which may be x or the residual.
inline constexpr Kernel<BatchNormAttributes> batch_norm{"batch_norm"};
/// in: dy, x, weight, mean, variance, bias, y, residual, of which an activation without residual
/// needs bias, relu and relu6 with residual y, or bias and residual with the same bits, hardswish
/// with residual bias and residual;
/// out: dx, dweight, dbias, dresidual (activation with residual). Each output may be absent. dx (or
/// dresidual, when there is one) may be dy.
inline constexpr Kernel<BatchNormAttributes> batch_norm_backward{"batch_norm_backward"};

struct RunningStatisticsAttributes {
  double momentum = 0.1;
  double correction = 1;  ///< of the variance: n / (n - 1), for n values in all parts together
  /// Of a batch that comes in parts: the share of this one, and of those that `out` already has.
  double part = 1, before = 0;
};
/// in: mean, variance (float64), the running mean before the first part; out: running mean, running
/// variance, which move towards them. After the last of several parts they have moved once, towards
/// the mean and variance of all parts pooled (Chan, Golub and LeVeque, "Updating formulae and a
/// pairwise algorithm for computing sample variances", 1979).
inline constexpr Kernel<RunningStatisticsAttributes> running_statistics{"running_statistics",
                                                                        /*updates=*/true};

}  // namespace kernel

}  // namespace brim
