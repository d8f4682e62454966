// Exponential of each element, which overflows to infinity above 88 in float32 and above 11 in
// float16. For probabilities use `softmax` or `sigmoid`, which do not. In C++, `exp` of a number is
// `std::exp`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = exp(x), elementwise; any shape, floating dtypes. dx = dy * y. Saves its output, so that the
/// input need not be kept.
Tensor exp(Tensor x, Where where = Where::current());

}  // namespace brim
