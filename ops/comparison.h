// Comparisons of two tensors, element by element, with broadcasting; `a < b` and its like are
// written for them (ops/operators.h). What they give has no gradient: it is a condition for
// `where`, or counts, after a `cast`, what is right.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = a == b, and so on, of dtype bool; the shapes broadcast by NumPy's rules. One dtype:
/// floating, int64, int32 or uint8. NaN is not equal to anything, and neither smaller nor larger.
/// Throw `ShapeError` when the shapes do not broadcast, `DtypeError` for two dtypes or bool and
/// int8, `DeviceError` for two devices.
Tensor eq(Tensor a, Tensor b, Where where = Where::current());
Tensor ne(Tensor a, Tensor b, Where where = Where::current());
Tensor lt(Tensor a, Tensor b, Where where = Where::current());
Tensor le(Tensor a, Tensor b, Where where = Where::current());
Tensor gt(Tensor a, Tensor b, Where where = Where::current());
Tensor ge(Tensor a, Tensor b, Where where = Where::current());

}  // namespace brim
