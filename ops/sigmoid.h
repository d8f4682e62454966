// Logistic function, 1 / (1 + exp(-x)): gates and probabilities of one class against none. Before a
// loss, hand the logits to `binary_cross_entropy_with_logits`, which does not round them to 0 or 1
// first. For several classes `softmax`; a gate without `exp` is `hardsigmoid`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = 1 / (1 + exp(-x)), elementwise; any shape, floating dtypes. Nothing overflows, and small
/// results keep their digits. dx = dy * y * (1 - y), in which results near 1 leave few digits.
/// Saves its output, so that the input need not be kept.
Tensor sigmoid(Tensor x, Where where = Where::current());

}  // namespace brim
