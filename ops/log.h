// Natural logarithm of each element. Of probabilities use `log_softmax`, or a loss that takes
// logits: both stay finite where a probability rounds to 0. In C++, `log` of a number is
// `std::log`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = log(x), elementwise; any shape, floating dtypes. 0 gives -infinity, anything below NaN.
/// dx = dy / x. Saves its input.
Tensor log(Tensor x, Where where = Where::current());

}  // namespace brim
