// A gradient that nobody has made yet: that of a weight which meets few pixels or rows is the
// product of two small matrices, and where kernels of an optimizer are all that reads it, it need
// never be stored (`BackwardOptions::on_leaf_factors`).
#pragma once

#include "brim/core/tensor.h"

namespace brim::autograd {

/// Of a leaf of shape [K, ...], seen as a matrix of K rows: a^T b, of `a` as [M, K] and `b` as
/// [M, N]. Both of the leaf's dtype and contiguous, of any number of dimensions. Each element of
/// the gradient is a sum of M products in order, each added without rounding in between (fma).
/// Nobody may write to them until it was made.
struct GradientFactors {
  Tensor a, b;
};

/// The gradient of this shape, for who looks at a training's numbers: in host memory that no
/// account in force is charged for. Undefined for factors of the meta device. Throws `DtypeError`
/// for others than float32 and float64.
Tensor product_on_host(const GradientFactors& factors, const Shape& shape);

}  // namespace brim::autograd
