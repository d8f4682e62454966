// Hard swish, x * min(max(x + 3, 0), 6) / 6: `silu` in straight pieces, without `exp`, the
// activation of MobileNet V3 (Howard et al., "Searching for MobileNetV3", ICCV 2019). Behind
// `batch_norm` use its `activation` instead, which spares this pass over memory. It falls and rises
// again, so its input is what must be kept; `relu6` is content with its output.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = x * min(max(x + 3, 0), 6) / 6, elementwise; any shape, floating dtypes. NaN stays NaN. The
/// gradient is 0 for x <= -3, dy for x >= 3 and dy * (x / 3 + 1/2) between, as in PyTorch. Saves
/// its input.
Tensor hardswish(Tensor x, Where where = Where::current());

}  // namespace brim
