// A tensor taken apart along an axis: PyTorch's `split`. Forward copies nothing: the parts are
// views, and any of them keeps all bytes of x alive. Backward writes one gradient of x's size,
// where a `slice` for each part would write as many as there are parts. Its opposite is `concat`.
#pragma once

#include <cstdint>
#include <vector>

#include "brim/autograd/op.h"
#include "brim/autograd/scope.h"

namespace brim {

/// Parts of `size` elements along `axis` (from the end when negative), in order; the last one is
/// smaller where the size does not divide. A tensor of none is one part of none. Always views. Any
/// dtype. Saves nothing.
/// Throws `ShapeError` for an axis that is out of range, `ValueError` for a size below 1.
Tensors split(Tensor x, int64_t size, int axis, Where where = Where::current());

/// Parts of these sizes, which add up to that of x along the axis; else throws `ShapeError`.
Tensors split(Tensor x, std::vector<int64_t> sizes, int axis, Where where = Where::current());

}  // namespace brim
