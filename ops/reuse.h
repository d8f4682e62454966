// Overwriting a gradient that nobody else will read, instead of taking new bytes: one buffer less
// while a backward function runs. Only with kernels that read each element of dy before they write
// there, as their comments say ("may be dy"), and where dx has the shape and dtype of dy. Not for
// forward, which leaves its inputs as they are.
#pragma once

#include "brim/core/tensor.h"

namespace brim {

/// `tensor` itself when the caller holds the only handle to its values and they fill their
/// storage, else an uninitialised tensor like it. For backward: `reuse_or_empty(dy)` with a `dy`
/// from `take_grad`. The answer depends on handles alone, never on addresses, so it is the same
/// when a step is traced.
inline Tensor reuse_or_empty(const Tensor& tensor) {
  return is_unshared(tensor) && fills_storage(tensor) ? tensor : empty_like(tensor);
}

}  // namespace brim
