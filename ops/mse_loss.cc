#include "brim/ops/mse_loss.h"

#include "brim/ops/elementwise_loss_op.h"

namespace brim {

Tensor mse_loss(Tensor input, Tensor target, MseLossOptions options, Where where) {
  return autograd::apply_one(std::make_shared<ElementwiseLoss<functor::SquaredError>>(
                                 kernel::mse_loss, functor::SquaredError(), options.reduction),
                             {std::move(input), std::move(target)}, where);
}

}  // namespace brim
