// Rectified linear unit, max(x, 0). Behind `batch_norm` use its `activation` instead, which spares
// this pass over memory. Alone it reads x and writes y; backward reads dy and y and writes dx over
// dy where nobody else holds dy. An op that follows and saves its input shares the saved y.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = max(x, 0), elementwise; any shape, floating dtypes. The gradient at 0 is 0, as in PyTorch.
/// Saves its output, so that the input need not be kept.
Tensor relu(Tensor x, Where where = Where::current());

}  // namespace brim
