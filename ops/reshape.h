// Another shape for the same elements. Free where x is contiguous; any other x is copied, also
// where PyTorch would find strides for a view. The order of elements stays: to exchange axes use
// `permute`. Off the tape there is `Tensor::view_as`, which never copies.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// The elements of x in row-major order, with another shape; one size may be -1 and is inferred.
/// A view of a contiguous x, else a copy. Any dtype. Saves nothing.
/// Throws `ShapeError` when the number of elements differs or a size cannot be inferred.
Tensor reshape(Tensor x, const Shape& shape, Where where = Where::current());

}  // namespace brim
