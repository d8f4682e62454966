// Elementwise quotient of two tensors, with broadcasting. `a / b` and `a / 2` are written for it
// (ops/operators.h); `a * (1.0 / n)` is quicker. Whole numbers are not
// divided. Division by 0 gives infinities or NaN, no error.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = a / b; the shapes broadcast by NumPy's rules, one floating dtype. da = dy / b and
/// db = -dy / b * y, summed over the axes along which the input was repeated. Saves b, and y where
/// b wants a gradient.
/// Throws `ShapeError` when the shapes do not broadcast, `DtypeError` for two dtypes or whole
/// numbers, `DeviceError` for two devices.
Tensor div(Tensor a, Tensor b, Where where = Where::current());

}  // namespace brim
