// The way back through broadcasting, for backward functions of ops that broadcast: an input that
// was repeated along an axis gets the sum of the gradient over it. `add` and `mul` use it; `matmul`
// sums within its kernel. Nothing here is recorded on the tape: in a model use `sum`.
#pragma once

#include "brim/core/tensor.h"

namespace brim {

/// The sum of `grad` over the axes along which a tensor of `shape` was repeated; `grad` itself
/// where it was not. `grad` is contiguous.
Tensor unbroadcast(const Tensor& grad, const Shape& shape);

/// unbroadcast(grad * factor, shape), where `factor` broadcasts to the shape of `grad`.
Tensor unbroadcast_product(const Tensor& grad, const Tensor& factor, const Shape& shape);

}  // namespace brim
