// Absolute value of each element. As a loss it pulls equally from everywhere and never settles at
// 0: for errors that should become small, `mse_loss`. In C++, `abs` of a number is `std::abs`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = |x|, elementwise; any shape, floating dtypes. NaN stays NaN. The gradient at 0 is 0, as in
/// PyTorch. Saves its input, whose sign y does not tell.
Tensor abs(Tensor x, Where where = Where::current());

}  // namespace brim
