#include "brim/ops/binary_cross_entropy_with_logits.h"

#include "brim/ops/elementwise_loss_op.h"

namespace brim {

Tensor binary_cross_entropy_with_logits(Tensor logits, Tensor target,
                                        BinaryCrossEntropyOptions options, Where where) {
  Tensors in{std::move(logits), std::move(target)};
  if (options.positive_weight.defined()) in.push_back(std::move(options.positive_weight));
  return autograd::apply_one(std::make_shared<ElementwiseLoss<functor::BinaryCrossEntropy>>(
                                 kernel::binary_cross_entropy_with_logits,
                                 functor::BinaryCrossEntropy(), options.reduction),
                             std::move(in), where);
}

}  // namespace brim
