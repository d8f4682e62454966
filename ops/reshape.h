// Another shape for the same elements.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// The elements of x in row-major order, with another shape; one size may be -1 and is inferred.
/// A view of a contiguous x, else a copy. Any dtype. Saves nothing.
/// Throws `ShapeError` when the number of elements differs or a size cannot be inferred.
Tensor reshape(Tensor x, const Shape& shape, Where where = Where::current());

}  // namespace brim
