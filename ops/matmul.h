// Matrix product, of two matrices or of batches of them; for layers use `linear`. Where b is one
// matrix, all rows of a make one product; else the products of a batch run one after the other,
// each on as many threads as it repays, so many tiny ones are slow. Operands that are not
// contiguous, such as a transpose by `permute`, are copied first. Vectors are not taken.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"

namespace brim {

/// y[...,i,j] = sum over p of a[...,i,p] * b[...,p,j].
///
/// a [...,m,k], b [...,k,n] of rank 2 or more, one floating dtype; the leading axes broadcast.
/// Throws `ShapeError`, `DtypeError`, `DeviceError`. Saves a and b, each only if the other's
/// gradient is wanted.
Tensor matmul(Tensor a, Tensor b, Where where = Where::current());

namespace kernel {
struct MatmulAttributes {
  bool transpose_a = false;  ///< a is given as [...,k,m]
  bool transpose_b = false;  ///< b is given as [...,n,k]
};
/// in: a [...,m,k], b [...,k,n], bias [n] (may be absent); out: y [...,m,n]. Contiguous, of one
/// rank; leading axes of size 1 broadcast, and over leading axes that only y lacks (size 1 there)
/// the products are summed: the gradient of a broadcast.
inline constexpr Kernel<MatmulAttributes> matmul{"matmul"};
}  // namespace kernel

}  // namespace brim
