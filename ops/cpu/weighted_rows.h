// A row of numbers as the weighted sum of other rows, such as a pixel of NHWC that is made of other
// pixels, for ops whose rows have any number of terms: sums are in double, in blocks of columns
// that stay in the first-level cache. For windows that are small and of one size, sums in vector
// registers are faster (ops/cpu/pool_loops.h).
#pragma once

#include <algorithm>
#include <cstdint>

namespace brim::cpu {

/// to[c] = sum of weight * row[c] over the calls `add(row, weight)` that `visit(add)` makes, for c
/// in [0, width). `visit` is called once for each block of columns.
template <class T, class Visit>
void weighted_rows(int64_t width, T* to, const Visit& visit) {
  constexpr int64_t kBlock = 64;
  for (int64_t c = 0; c < width; c += kBlock) {
    int64_t count = std::min(kBlock, width - c);
    double sum[kBlock] = {};
    visit([&](const T* row, double weight) {
      for (int64_t i = 0; i < count; ++i) sum[i] += weight * static_cast<double>(row[c + i]);
    });
    for (int64_t i = 0; i < count; ++i) to[c + i] = static_cast<T>(sum[i]);
  }
}

}  // namespace brim::cpu
