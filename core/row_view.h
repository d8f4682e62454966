// A stretch of the first dimension, such as some images of a batch, as a view over the same
// storage. Not recorded on the tape: in a model use `slice`.
#pragma once

#include "brim/core/tensor.h"

namespace brim {

/// Bytes of rows to make at a time for who reads them at once: so many stay in the caches.
inline constexpr int64_t kBytesOfRows = int64_t{1} << 21;

/// Rows [begin, end) of a tensor of at least one dimension, 0 <= begin <= end <= its size.
inline Tensor row_view(const Tensor& tensor, int64_t begin, int64_t end) {
  Layout layout = tensor.layout();
  layout.shape[0] = end - begin;
  layout.offset += begin * layout.strides[0];
  return Tensor(tensor.storage(), layout);
}

}  // namespace brim
