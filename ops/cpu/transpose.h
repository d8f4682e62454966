// A square of vectors, turned around its diagonal in registers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/ops/cpu/vector.h"

namespace brim::cpu {

/// Element j of vector i becomes element i of vector j. Each round interleaves the halves.
inline void transpose(Vector<float> (&rows)[kLanes<Vector<float>>]) {
  constexpr int kWidth = kLanes<Vector<float>>;
  Vector<int32_t> low, high;
  for (int i = 0; i < kWidth; ++i) {
    low[i] = i / 2 + (i % 2) * kWidth;
    high[i] = low[i] + kWidth / 2;
  }
  for (int round = 1; round < kWidth; round *= 2) {
    Vector<float> next[kWidth];
    for (int i = 0; i < kWidth / 2; ++i) {
      next[2 * i] = __builtin_shuffle(rows[i], rows[i + kWidth / 2], low);
      next[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + kWidth / 2], high);
    }
    std::copy(next, next + kWidth, rows);
  }
}

}  // namespace brim::cpu
