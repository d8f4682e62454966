// Elementwise difference of two tensors, with broadcasting. `a - b` and `a - 2` are written
// for it (ops/operators.h). For the squared error of a regression use `mse_loss`,
// which does not store the difference.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = a - b; the shapes broadcast by NumPy's rules, one floating dtype. Saves nothing. da is dy
/// and db is -dy, summed over the axes along which the input was repeated. Throws `ShapeError` when
/// the shapes do not broadcast, `DtypeError` for two dtypes or whole numbers, `DeviceError` for two
/// devices.
Tensor sub(Tensor a, Tensor b, Where where = Where::current());

}  // namespace brim
