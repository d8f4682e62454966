// Means over axes: `kernel::sum` with a scale, so one pass over x; backward writes dy over the
// number of terms to every element of dx. The mean squared error is `mean(mul(e, e))`. For images
// [N,H,W,C] to [N,C] use `global_avg_pool`; `cross_entropy` takes the mean of its rows itself.
#pragma once

#include <vector>

#include "brim/ops/sum.h"

namespace brim {

/// y = the mean of x over `axes`, in any order; they count from the end when negative, and none
/// means all. Floating dtypes; the mean over nothing is NaN. Accumulates as `sum` does and divides
/// before it rounds, so float16 sums do not overflow. Saves nothing.
/// Throws `ShapeError` for an axis that is out of range or named twice.
Tensor mean(Tensor x, const Axes& axes = {}, ReduceOptions options = {},
            Where where = Where::current());

}  // namespace brim
