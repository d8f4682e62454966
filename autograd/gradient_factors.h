// A gradient that nobody has made yet: that of a weight which meets few pixels or rows is the
// product of two small matrices, and where an optimizer reads it once it need never be stored
// (`BackwardOptions::on_leaf_factors`).
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

}  // namespace brim::autograd
