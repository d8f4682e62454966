// Sums over very many pixels, exact enough: in float over some hundred of them, beyond in double.
#pragma once

#include <algorithm>
#include <cstdint>

namespace brim::cpu {

/// What one thread keeps: sums in T, emptied into totals in double.
template <class T>
struct PixelSums {
  static constexpr int64_t kFlushPixels = 256;  ///< whose sum may be in T, to the end of a row

  T* sums;
  double* totals;
  int64_t size, pixels = 0;

  void clear() {
    std::fill_n(sums, size, T(0));
    std::fill_n(totals, size, 0.0);
  }
  /// So many pixels were added.
  void note(int64_t count) {
    pixels += count;
    if (pixels >= kFlushPixels) flush();
  }
  void flush() {
    for (int64_t i = 0; i < size; ++i) totals[i] += static_cast<double>(sums[i]);
    std::fill_n(sums, size, T(0));
    pixels = 0;
  }
};

}  // namespace brim::cpu
