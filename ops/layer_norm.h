// Layer normalisation: each sample, or each token, by the mean and variance of its own features.
// Ba, Kiros and Hinton, "Layer Normalization", 2016. For transformers. It knows no channels of
// images: there use `batch_norm` or `group_norm`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

struct LayerNormOptions {
  double epsilon = 1e-5;
};

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, where mean and (biased) variance are
/// those over the last axes, which `normalized_shape` repeats: {512} for tokens [N,L,512].
///
/// x is of a floating dtype; weight and bias have the normalized shape, x's dtype, or float32 where
/// that is lower, and either may be undefined (1 and 0). Statistics and what is saved are those of
/// `group_norm`, whose kernel this is.
///
/// Throws `ShapeError`, `DtypeError` or `DeviceError` for tensors that do not go together,
/// `ValueError` for an epsilon that is not positive.
Tensor layer_norm(Tensor x, const Shape& normalized_shape, Tensor weight, Tensor bias,
                  LayerNormOptions options = {}, Where where = Where::current());

}  // namespace brim
