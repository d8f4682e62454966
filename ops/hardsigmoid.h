// Hard sigmoid, min(max(x + 3, 0), 6) / 6: a gate between 0 and 1 without `exp`, as the
// squeeze-and-excite blocks of MobileNet V3 have it (Howard et al., "Searching for MobileNetV3",
// ICCV 2019). No gradient passes where it is 0 or 1; where a gate must be able to open again, use
// `sigmoid`. The product with what is gated saves the same y.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = min(max(x + 3, 0), 6) / 6, elementwise; any shape, floating dtypes. NaN stays NaN. The
/// gradient is dy / 6 where 0 < y < 1 and 0 elsewhere, at -3 and 3 too, as in PyTorch. Saves its
/// output, so that the input need not be kept.
Tensor hardsigmoid(Tensor x, Where where = Where::current());

}  // namespace brim
