// The forward half that elementwise ops of two broadcasting tensors share: validate, infer the
// shape, allocate, launch. For authors of ops such as `add` and `mul`; their backward halves differ
// and use ops/broadcast.h. Functions of one tensor are shorter still: ops/unary.h.
#pragma once

#include "brim/ops/elementwise_kernels.h"
#include "brim/ops/op.h"

namespace brim {

/// y = f(a, b) by a broadcast kernel; errors carry the kernel's name.
/// Throws `ShapeError` when the shapes do not broadcast, `DtypeError` for two dtypes or whole
/// numbers, `DeviceError` for two devices.
template <class F>
Tensor launch_binary(const Kernel<F>& kernel, const Tensor& a, const Tensor& b) {
  require_floating(kernel.name, a);
  require_same_kind(kernel.name, a, b);
  Tensor y = empty(broadcast_shapes(a.shape(), b.shape(), kernel.name),
                   {.dtype = a.dtype(), .device = a.device()});
  launch(kernel, {a, b}, {y});
  return y;
}

}  // namespace brim
