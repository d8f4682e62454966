// The kernels of losses between two tensors of one shape, over a formula of ops/loss_functors.h:
// `mse_loss`, `binary_cross_entropy_with_logits` and `kl_div` name theirs with it. Their `Op` is in
// elementwise_loss_op.h, the CPU's part in cpu/elementwise_loss.h. Not for a loss along an axis:
// see `cross_entropy`.
#pragma once

#include "brim/core/launch.h"
#include "brim/ops/loss_functors.h"

namespace brim::kernel {

template <class Formula>
struct ElementwiseLossAttributes {
  Formula formula;
  bool reduces = true;  ///< to a scalar
  double scale = 1;     ///< of the sum, or of each element
};
template <class Formula>
struct ElementwiseLoss {
  /// in: input x, target t of x's shape, weight per channel [C] or absent; out: loss, of x's shape
  /// or a scalar. Contiguous.
  Kernel<ElementwiseLossAttributes<Formula>> forward;
  /// in: dloss, x, t, weight or absent; out: dx, dt. Each may be absent; dx may be dloss.
  Kernel<ElementwiseLossAttributes<Formula>> backward;
};

}  // namespace brim::kernel
