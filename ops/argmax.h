// Where the maxima over axes are, such as the classes that logits choose. Whole numbers, so no
// gradient: for the values, which have one, use `max`; for soft choices `softmax`.
#pragma once

#include <vector>

#include "brim/autograd/scope.h"
#include "brim/ops/sum.h"

namespace brim {

/// y = where the largest of x over `axes` is, int64: with one axis its index along it, with several
/// its number among the elements along them, in row-major order of x. `axes` are in any order,
/// count from the end when negative, and none means all. x of a floating dtype. Of equal values the
/// first, of several NaN the first NaN, as in PyTorch. Throws `ShapeError` for an axis that is out
/// of range or named twice, or for no elements along the axes.
Tensor argmax(Tensor x, const Axes& axes = {}, ReduceOptions options = {},
              Where where = Where::current());

}  // namespace brim
