// Hyperbolic tangent, which squashes to (-1, 1). Gradients fade where it is nearly flat, so between
// the layers of a deep network use `relu` or `silu`. In C++, `tanh` of a number is `std::tanh`;
// this one takes tensors.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = tanh(x), elementwise; any shape, floating dtypes. dx = dy * (1 - y^2), in which results near
/// 1 or -1 leave few digits. Saves its output, so that the input need not be kept.
Tensor tanh(Tensor x, Where where = Where::current());

}  // namespace brim
