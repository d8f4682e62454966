// Tensors one behind the other along an axis: PyTorch's `cat`. Forward copies every element into a
// new tensor; backward copies none and hands out views, which keep all of dy alive while one is in
// use. There is no `stack`: give each tensor an axis of size 1 with `reshape` first. For a border
// of a constant use `pad`.
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
