// Writing a result over a tensor that nobody else will read, instead of taking new bytes: one
// buffer less. Backward does so with gradients, forward where the tape allows it
// (autograd/in_place.h). Only with kernels that read each element before they write there, as their
// comments say ("may be dy"), and where the result has the shape and dtype of what it replaces.
#pragma once

#include "brim/autograd/op.h"

namespace brim {

/// `tensor` itself when the caller holds the only handle to its values and they fill their
/// storage, else an uninitialised tensor like it. For backward: `reuse_or_empty(dy)` with a `dy`
/// from `take_grad`. The answer depends on handles alone, never on addresses, so it is the same
/// when a step is traced.
inline Tensor reuse_or_empty(const Tensor& tensor) {
  return is_unshared(tensor) && fills_storage(tensor) ? tensor : empty_like(tensor);
}

/// For forward: a tensor of `shape` and `options`, over the input that `context` offers for it
/// where that has as many elements of the dtype, else uninitialised. A handle of its own, which the
/// tape can tell from the input.
inline Tensor output_over(const Tensors& inputs, const autograd::ForwardContext& context,
                          const Shape& shape, const TensorOptions& options) {
  if (context.overwrite >= 0) {
    const Tensor& input = inputs[static_cast<size_t>(context.overwrite)];
    if (input.numel() == numel(shape) && input.dtype() == options.dtype &&
        input.device() == options.device)
      return input.detach().view_as(shape);
  }
  return empty(shape, options);
}

/// The same, like the contiguous `x`.
inline Tensor output_over(const Tensors& inputs, const autograd::ForwardContext& context,
                          const Tensor& x) {
  return output_over(inputs, context, x.shape(), {.dtype = x.dtype(), .device = x.device()});
}

}  // namespace brim
