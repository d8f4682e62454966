// Mean squared error, for regression. For classes use `cross_entropy`; where outliers must not
// dominate, this is the wrong loss. The composition `mean(mul(e, e))` gives the same and stores
// e for it.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/ops/elementwise_loss.h"
#include "brim/ops/reduction.h"

namespace brim {

struct MseLossOptions {
  Reduction reduction = Reduction::mean;
};

/// (input - target)^2 per element, then the mean over all elements, or another reduction.
///
/// Two tensors of one shape and floating dtype: nothing broadcasts, as [N] against [N,1] is nearly
/// always a mistake. The result is a scalar, or has their shape for `Reduction::none`; the mean
/// over nothing is NaN. Terms are added in blocks whose sums are added in double. Saves both; both
/// get gradients.
/// Throws `ShapeError`, `DtypeError` or `DeviceError` for tensors that do not go together.
Tensor mse_loss(Tensor input, Tensor target, MseLossOptions options = {},
                Where where = Where::current());

namespace kernel {
inline constexpr ElementwiseLoss<functor::SquaredError> mse_loss{{"mse_loss"},
                                                                 {"mse_loss_backward"}};
}  // namespace kernel

}  // namespace brim
