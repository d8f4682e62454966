// Another element type for the same values.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// x in `dtype`: floating to floating rounds to nearest even. Floating to whole numbers truncates;
/// what is beyond their range becomes the nearest of them, and NaN 0. Whole numbers that do not fit
/// wrap around. x itself when it has that dtype. Saves nothing; the gradient is cast back. Whole
/// numbers carry no gradient.
Tensor cast(Tensor x, Dtype dtype, Where where = Where::current());

}  // namespace brim
