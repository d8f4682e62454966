// Square root of each element. Its gradient is infinite at 0: add a small number first where that
// can happen, as norms do with their epsilon. In C++, `sqrt` of a number is `std::sqrt`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = sqrt(x), elementwise; any shape, floating dtypes. Anything below 0 gives NaN.
/// dx = dy / (2 y). Saves its output, so that the input need not be kept.
Tensor sqrt(Tensor x, Where where = Where::current());

}  // namespace brim
