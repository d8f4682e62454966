// Elementwise (Hadamard) product of two tensors, with broadcasting; the matrix product is `matmul`.
// `a * b` and `2 * a` are written for it (ops/operators.h). An input stays in
// memory for the other's gradient, so two activations are both held, while scaling by a constant
// holds the constant alone.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = a * b; the shapes broadcast by NumPy's rules, one floating dtype. da = dy * b and
/// db = dy * a, summed over the axes along which the input was repeated. Saves the input that the
/// other's gradient needs, and no more.
/// Throws `ShapeError` when the shapes do not broadcast, `DtypeError` for two dtypes or whole
/// numbers, `DeviceError` for two devices.
Tensor mul(Tensor a, Tensor b, Where where = Where::current());

}  // namespace brim
