#include "brim/ops/kl_div.h"

#include "brim/ops/elementwise_loss_op.h"

namespace brim {

Tensor kl_div(Tensor input, Tensor target, KlDivOptions options, Where where) {
  return autograd::apply_one(
      std::make_shared<ElementwiseLoss<functor::KlDivergence>>(
          kernel::kl_div, functor::KlDivergence{.log_target = options.log_target},
          options.reduction),
      {std::move(input), std::move(target)}, where);
}

}  // namespace brim
