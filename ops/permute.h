// Axes in another order; the transpose of a matrix is {1, 0}. No element moves, forward or
// backward, but most ops copy what is not contiguous each time they get it: permute NCHW images
// once, where they enter. To regroup elements in the order they have use `reshape`.
#pragma once

#include <vector>

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y[i_axes[0], i_axes[1], ...] = x[i_0, i_1, ...]: axis k of y is axis `axes[k]` of x; they count
/// from the end when negative. Always a view; `contiguous(y)` or the next op copies. Any dtype.
/// Saves nothing. NCHW to NHWC is {0, 2, 3, 1}.
/// Throws `ShapeError` unless `axes` names every axis once.
Tensor permute(Tensor x, const std::vector<int>& axes, Where where = Where::current());

}  // namespace brim
