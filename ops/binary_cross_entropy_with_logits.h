// Binary cross entropy between logits and targets in [0, 1], each element a question of its own:
// images with several labels, masks, a discriminator. The sigmoid is part of it: give it raw
// scores. For one class out of many use `cross_entropy`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/ops/elementwise_loss.h"
#include "brim/ops/reduction.h"

namespace brim {

struct BinaryCrossEntropyOptions {
  /// [C], for inputs [..., C]: what a positive target weighs in each channel, to balance rare
  /// ones. Gets no gradient. Of the logits' dtype, or float32 where that is lower. Or undefined: 1.
  Tensor positive_weight = {};
  Reduction reduction = Reduction::mean;
};

/// -(w t log(sigmoid(x)) + (1 - t) log(1 - sigmoid(x))) per element of logits x and target t, then
/// the mean over all elements, or another reduction. Computed from log(1 + exp(+-x)), so that
/// neither large nor small losses lose digits.
///
/// Two tensors of one shape and floating dtype. The result is a scalar, or has their shape for
/// `Reduction::none`; the mean over nothing is NaN. Targets outside [0, 1] are not refused. Saves
/// all inputs; logits and target get gradients.
/// Throws `ShapeError`, `DtypeError` or `DeviceError` for tensors that do not go together.
Tensor binary_cross_entropy_with_logits(Tensor logits, Tensor target,
                                        BinaryCrossEntropyOptions options = {},
                                        Where where = Where::current());

namespace kernel {
inline constexpr ElementwiseLoss<functor::BinaryCrossEntropy> binary_cross_entropy_with_logits{
    {"binary_cross_entropy_with_logits"}, {"binary_cross_entropy_with_logits_backward"}};
}  // namespace kernel

}  // namespace brim
