// The forward half that elementwise ops of two broadcasting tensors share: validate, infer the
// shape, allocate, launch. For authors of ops such as `add` and `mul`; their backward halves differ
// and use ops/broadcast.h. Functions of one tensor are shorter still: ops/unary.h.
#pragma once

#include "brim/ops/elementwise_kernels.h"
#include "brim/ops/op.h"
#include "brim/ops/reuse.h"

namespace brim {

/// y = f(a, b) for the inputs a and b, by a broadcast kernel; y may take the place of one of them
/// that has its shape. Errors carry the kernel's name.
/// Throws `ShapeError` when the shapes do not broadcast, `DtypeError` for two dtypes or whole
/// numbers, `DeviceError` for two devices.
template <class F>
Tensor launch_binary(const Kernel<F>& kernel, const Tensors& in,
                     const autograd::ForwardContext& context) {
  const Tensor &a = in[0], &b = in[1];
  require_floating(kernel.name, a);
  require_same_kind(kernel.name, a, b);
  Tensor y = output_over(in, context, broadcast_shapes(a.shape(), b.shape(), kernel.name),
                         {.dtype = a.dtype(), .device = a.device()});
  launch(kernel, {a, b}, {y});
  return y;
}

}  // namespace brim
