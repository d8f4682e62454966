// Where the maxima along one axis are, such as the classes that logits choose. Whole numbers, so no
// gradient: for the values, which have one, use `max`; for soft choices `softmax`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/ops/sum.h"

namespace brim {

/// y = the index along `axis` (from the end when negative) of the largest element of x, int64. x of
/// a floating dtype. Of equal values the first, of several NaN the first NaN, as in PyTorch.
/// Throws `ShapeError` for an axis that is out of range or without elements.
Tensor argmax(Tensor x, int axis, ReduceOptions options = {}, Where where = Where::current());

}  // namespace brim
