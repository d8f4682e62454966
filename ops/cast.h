// Another element type for the same values: PyTorch's `x.to(dtype)`, on the tape. Copies x in one
// pass. Where no gradient is wanted use `convert_to`, for pixels `normalize`, which scales them in
// the same pass. A half type saves bytes on the CPU but no work: its kernels run in float32 between
// conversions (core/launch.h).
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
