// The negative of each element. There is no operator -, and `sub` subtracts in one pass: do not
// negate to add. Backward needs nothing of x, so a loss may be negated for free.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = -x, elementwise; any shape, floating dtypes. Saves nothing.
Tensor neg(Tensor x, Where where = Where::current());

}  // namespace brim
