// Tensors one behind the other along an axis.
#pragma once

#include <vector>

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// The tensors, in order, along `axis` (from the end when negative); sizes along the other axes
/// are equal, and so are dtypes. One or more, any dtype. Saves nothing; each gradient is a slice.
/// Throws `ValueError` for none, `ShapeError` when sizes differ, `DtypeError` when dtypes do.
Tensor concat(std::vector<Tensor> tensors, int axis, Where where = Where::current());

}  // namespace brim
