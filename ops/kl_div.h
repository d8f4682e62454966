// Kullback-Leibler divergence of distributions, KL(target || exp(input)), as PyTorch has it: the
// input holds log-probabilities, from `log_softmax`, the target comes second. For distillation. It
// differs from cross entropy with probabilities by the target's entropy, which has no gradient for
// the input.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/ops/elementwise_loss.h"
#include "brim/ops/reduction.h"

namespace brim {

struct KlDivOptions {
  /// `batch_mean` is the divergence of a sample, on average; `mean` divides by the classes too.
  Reduction reduction = Reduction::mean;
  bool log_target = false;  ///< the target holds log-probabilities too
};

/// t (log t - x) per element of input x and target t, and 0 where t is 0; with `log_target`
/// exp(t) (t - x); then the mean over all elements, or another reduction. Nothing is summed along
/// an axis on the way.
///
/// Two tensors of one shape and floating dtype. The result is a scalar, or has their shape for
/// `Reduction::none`; the mean over nothing is NaN. Saves both; both get gradients, the target's
/// is -infinity where t is 0.
/// Throws `ShapeError`, `DtypeError` or `DeviceError` for tensors that do not go together, and
/// `ShapeError` for the batch mean of scalars.
Tensor kl_div(Tensor input, Tensor target, KlDivOptions options = {},
              Where where = Where::current());

namespace kernel {
inline constexpr ElementwiseLoss<functor::KlDivergence> kl_div{{"kl_div"}, {"kl_div_backward"}};
}  // namespace kernel

}  // namespace brim
