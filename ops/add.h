// Elementwise sum of two tensors, with broadcasting. `a + b` and `a + 2` are written for it
// (ops/operators.h). Inputs of any strides are read as they are, into a new
// tensor. The shortcut of a residual block is cheaper as the `residual` of `batch_norm`, a bias as
// that of `linear` or `conv2d`; to add in place, off the tape, there is `accumulate_into`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = a + b; the shapes broadcast by NumPy's rules, one floating dtype. Saves nothing. Backward
/// sums over the axes along which an input was repeated; where the shapes are equal, both inputs
/// get the gradient itself, not a copy.
/// Throws `ShapeError` when the shapes do not broadcast, `DtypeError` for two dtypes or whole
/// numbers, `DeviceError` for two devices.
Tensor add(Tensor a, Tensor b, Where where = Where::current());

}  // namespace brim
