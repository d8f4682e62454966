// The check that kernels make of indices before they write anything: what a tensor's values are, no
// shape tells. Numbers with a meaning of their own, such as the label that cross entropy ignores,
// are for their ops to check.
#pragma once

#include <cstdint>

#include "brim/base/error.h"

namespace brim::cpu {

/// Throws `ValueError` under `tag` for the first of `count` indices outside [0, size).
template <class Index>
void check_indices(const char* tag, const Index* indices, int64_t count, int64_t size) {
  for (int64_t i = 0; i < count; ++i)
    expect<ValueError>(indices[i] >= 0 && indices[i] < size, tag,
                       "expected indices in [0, {}), got {} at position {}", size, indices[i], i);
}

}  // namespace brim::cpu
