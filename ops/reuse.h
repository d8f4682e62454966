// Overwriting a gradient that nobody else will read, instead of taking new bytes.
#pragma once

#include "brim/core/tensor.h"
#include "brim/memory/source.h"

namespace brim {

/// `tensor` itself when the caller holds the only handle to its values and they fill their
/// storage, else an uninitialised tensor like it. For backward: `reuse_or_empty(dy)` with a `dy`
/// from `take_grad`. The answer depends on handles alone, never on addresses, so it is the same
/// when a step is traced.
inline Tensor reuse_or_empty(const Tensor& tensor) {
  const Storage& storage = *tensor.storage();
  bool own = tensor.shared_body().use_count() == 1 && storage.handles() == 1 &&
             storage.tape_holds() == 0 && tensor.is_contiguous() &&
             storage.bytes() < tensor.numel() * size_of(tensor.dtype()) + memory::kAlignment;
  return own ? tensor : empty_like(tensor);
}

}  // namespace brim
