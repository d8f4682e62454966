// The ops that can be written behind a tensor (core/tensor.h).
#include "brim/core/tensor.h"
#include "brim/ops/argmax.h"
#include "brim/ops/mean.h"
#include "brim/ops/reshape.h"
#include "brim/ops/sum.h"

namespace brim {

Tensor Tensor::sum(const Axes& axes, ReduceOptions options, Where where) const {
  return brim::sum(*this, axes, options, where);
}

Tensor Tensor::mean(const Axes& axes, ReduceOptions options, Where where) const {
  return brim::mean(*this, axes, options, where);
}

Tensor Tensor::argmax(const Axes& axes, ReduceOptions options, Where where) const {
  return brim::argmax(*this, axes, options, where);
}

Tensor Tensor::reshape(const Shape& shape, Where where) const {
  return brim::reshape(*this, shape, where);
}

}  // namespace brim
