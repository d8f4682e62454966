// What kernels with much scratch ask before they are chosen.
#pragma once

#include <cstdint>

#include "brim/ops/conv_shape.h"

namespace brim::cpu {

/// Threads for which the choice looks at the scratch: it, and so the bits of a result, do not
/// depend on how many there are.
inline constexpr int64_t kThreadsOfChoice = 2;

/// Is the scratch no larger than x, y and the weights together? In small networks it would be what
/// a step holds at the most.
inline bool is_affordable(const ConvShape& shape, int64_t scratch_bytes) {
  const int64_t x = shape.n * shape.h * shape.w * shape.c, y = shape.pixels() * shape.k;
  return scratch_bytes <= static_cast<int64_t>(sizeof(float)) * (x + y + shape.k * shape.window());
}

}  // namespace brim::cpu
