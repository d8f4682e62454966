// The same values in other layouts: with gaps, with axes in reverse order, off the 64-byte
// boundary. `check_op` (op_spec.h) holds ops to the same bits for each. They are copies in buffers
// of their own, unknown to the tape; an undefined tensor stays undefined. For views of a tensor's
// own storage, with gradients, use `slice` or `permute` (ops/).
#pragma once

#include "brim/core/tensor.h"

namespace brim::testing {

/// Views `layout` of a fresh buffer of `elements`, and copies the values of `from` there.
inline Tensor laid_out(const Tensor& from, const Strides& strides, int64_t offset,
                       int64_t elements) {
  Tensor buffer = full({elements}, 77, {.dtype = from.dtype(), .device = from.device()});
  Tensor view(buffer.storage(), {from.shape(), strides, offset, from.dtype()});
  copy_into(view, from);
  return view;
}

/// Every other element of a buffer, from the second on.
inline Tensor gapped(const Tensor& from) {
  if (!from.defined()) return from;
  Strides strides = contiguous_strides(from.shape());
  for (int axis = 0; axis < strides.size(); ++axis) strides[axis] *= 2;
  return laid_out(from, strides, 1, 2 * from.numel() + 1);
}

/// Axes in reverse order in memory.
inline Tensor transposed(const Tensor& from) {
  if (!from.defined()) return from;
  Strides strides = Dims::filled(from.dim(), 1);
  for (int axis = 1; axis < from.dim(); ++axis)
    strides[axis] = strides[axis - 1] * std::max<int64_t>(from.shape()[axis - 1], 1);
  return laid_out(from, strides, 0, std::max<int64_t>(from.numel(), 1));
}

/// Contiguous, but not on a 64-byte boundary.
inline Tensor shifted(const Tensor& from) {
  if (!from.defined()) return from;
  return laid_out(from, contiguous_strides(from.shape()), 1, from.numel() + 1);
}

}  // namespace brim::testing
