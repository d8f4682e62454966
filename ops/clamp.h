// Limits each element to a range. No gradient passes where it limits, so as the last layer of a
// model it can stop learning; `relu` and `relu6` are two of its cases and cost the same. To limit
// gradients, see the optimizer's options.
#pragma once

#include <optional>

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

struct ClampOptions {
  /// Either may be left out, not both. Where min is above max, everything becomes max.
  std::optional<double> min = {}, max = {};
};

/// y = min(max(x, min), max), elementwise; any shape, floating dtypes, in which the bounds are
/// rounded. NaN stays NaN. The gradient passes where min < y < max and is 0 elsewhere, at the
/// bounds too, as in PyTorch. Saves its output, so that the input need not be kept.
/// Throws `ValueError` without bounds or for one that is NaN.
Tensor clamp(Tensor x, ClampOptions options, Where where = Where::current());

}  // namespace brim
