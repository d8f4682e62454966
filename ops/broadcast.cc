#include "brim/ops/broadcast.h"

#include "brim/ops/elementwise_kernels.h"
#include "brim/ops/sum.h"

namespace brim {
namespace {

// `factor` may be undefined.
Tensor sum_to(const Tensor& grad, const Tensor& factor, const Shape& shape) {
  Shape padded = Dims::filled(grad.dim(), 1);
  for (int i = 1; i <= shape.size(); ++i) padded[grad.dim() - i] = shape[shape.size() - i];
  Tensor sum = empty(padded, {.dtype = grad.dtype(), .device = grad.device()});
  launch(kernel::sum, {grad, factor}, {sum});
  return sum.view_as(shape);
}

}  // namespace

Tensor unbroadcast(const Tensor& grad, const Shape& shape) {
  return grad.shape() == shape ? grad : sum_to(grad, {}, shape);
}

Tensor unbroadcast_product(const Tensor& grad, const Tensor& factor, const Shape& shape) {
  // A full factor and a small result: the product is never written.
  if (grad.shape() != shape && factor.shape() == grad.shape())
    return sum_to(grad, contiguous(factor), shape);
  Tensor product = empty_like(grad);
  launch(kernel::mul, {grad, factor}, {product});
  return unbroadcast(product, shape);
}

}  // namespace brim
