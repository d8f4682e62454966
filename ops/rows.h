// Tensors of any rank as matrices, for ops on the last axis such as `linear`: all other axes become
// rows. A view where x is contiguous, else a copy. Not recorded on the tape: in a model use
// `reshape`. x has at least one axis.
#pragma once

#include "brim/core/tensor.h"

namespace brim {

/// [..., n] as [rows, n], contiguous.
inline Tensor as_rows(const Tensor& x) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.dim(); ++i) rows *= x.size(i);
  return contiguous(x).view_as({rows, x.size(-1)});
}

}  // namespace brim
