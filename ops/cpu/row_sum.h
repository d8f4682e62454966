// The sum of consecutive elements, or of a function of them: in T over blocks, whose sums are added
// in double. The order depends on the count alone, so it is the same for every thread. For sums
// over axes there is `kernel::sum`, for sums per channel channel_sums.h.
#pragma once

#include <algorithm>
#include <cstdint>

namespace brim::cpu {

/// Elements added in T before their sum goes into a double.
inline constexpr int64_t kSumBlock = 256;

/// The sum of `load(i)` for i in [begin, begin + count). What `load` returns is T.
template <class Load>
double row_sum(const Load& load, int64_t begin, int64_t count) {
  using T = decltype(load(int64_t{0}));
  constexpr int64_t lanes = 16;
  double total = 0;
  int64_t done = 0;
  if (count >= lanes) {
    double sums[lanes] = {};
    while (done + lanes <= count) {
      T block[lanes] = {};
      int64_t end = std::min(done + kSumBlock, count - count % lanes);
      for (; done < end; done += lanes)
        for (int64_t k = 0; k < lanes; ++k) block[k] += load(begin + done + k);
      for (int64_t k = 0; k < lanes; ++k) sums[k] += static_cast<double>(block[k]);
    }
    for (double sum : sums) total += sum;
  }
  for (; done < count; ++done) total += static_cast<double>(load(begin + done));
  return total;
}

}  // namespace brim::cpu
