// Overwriting a gradient that nobody else will read, instead of taking new bytes.
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
