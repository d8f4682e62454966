// Affine map of the last axis, the fully connected layer: y = x W^T + b with W as PyTorch stores
// it. All other axes of x become the rows of one matrix product, which adds the bias as it writes
// y. For the product of two activations use `matmul`; `nn::Linear` owns its weight.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"

namespace brim {

/// y[...,o] = bias[o] + sum over i of x[...,i] * weight[o,i].
///
/// x [...,in] of rank 1 or more, weight [out,in], bias [out] or undefined, one floating dtype; the
/// result is [...,out]. Throws `ShapeError`, `DtypeError`, `DeviceError`. Saves x and weight, each
/// only if the other's gradient is wanted. Runs as `kernel::matmul`.
Tensor linear(Tensor x, Tensor weight, Tensor bias, Where where = Where::current());

namespace kernel {
/// in: dy [...,K]; out: db [K], the sum over all other axes. Contiguous.
inline constexpr Kernel<NoAttributes> bias_gradient{"bias_gradient"};
}  // namespace kernel

}  // namespace brim
