// Rectified linear unit with a ceiling, min(max(x, 0), 6): the activation of MobileNet V2 (Sandler
// et al., CVPR 2018), for low precision. Behind `batch_norm` use its `activation` instead, which
// spares this pass over memory. It costs as much as `relu`, which has no ceiling.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = min(max(x, 0), 6), elementwise; any shape, floating dtypes. NaN stays NaN. The gradient
/// passes where 0 < y < 6, as in PyTorch. Saves its output, so that the input need not be kept.
Tensor relu6(Tensor x, Where where = Where::current());

}  // namespace brim
