// What gradients that are summed over pixels of two images at a time share: rows of both, read as
// pairs of their elements, one image's in the lower half.
#pragma once

#include "brim/core/half.h"
#include "brim/ops/cpu/bfloat16_pairs.h"

#ifdef __AVX512BW__

#include <algorithm>

namespace brim::cpu {

/// One of several equal shares of some work.
struct Share {
  int64_t index, count;
  int64_t begin(int64_t size) const { return size * index / count; }
  int64_t end(int64_t size) const { return size * (index + 1) / count; }
};

/// The same elements of two images. Where there is no such image they are zeros.
struct ImageRows {
  const BFloat16 *a = nullptr, *b = nullptr;
  ImageRows at(int64_t i) const { return {a == nullptr ? a : a + i, b == nullptr ? b : b + i}; }
};

/// Row `row` of images 2 * pair and 2 * pair + 1 of [images,height,length].
inline ImageRows image_rows(const BFloat16* from, int64_t images, int64_t pair, int64_t height,
                            int64_t row, int64_t length) {
  const BFloat16* a = from + (2 * pair * height + row) * length;
  return {a, 2 * pair + 1 < images ? a + height * length : nullptr};
}

/// Up to 32 elements of two rows; those beyond `count` are zeros.
class PairsOfRows {
 public:
  static constexpr int64_t kWidth = kLanes<Vector<float>>;

  PairsOfRows(const ImageRows& rows, int64_t count) {
    const __mmask32 mask = first_of_32(count);
    // Where nothing is loaded an address that is none takes a hundred times as long.
    a_ = rows.a == nullptr ? __m512i{} : _mm512_maskz_loadu_epi16(mask, rows.a);
    b_ = rows.b == nullptr ? __m512i{} : _mm512_maskz_loadu_epi16(mask, rows.b);
  }
  /// 16 of them each.
  Pairs first() const { return first_pairs(a_, b_); }
  Pairs last() const { return last_pairs(a_, b_); }

 private:
  __m512i a_, b_;
};

/// to[i] = sum[i], or += sum[i], of the first `count` of 16.
inline void put_sums(float* to, int64_t count, Vector<float> sum, bool adds) {
  const auto mask =
      static_cast<__mmask16>((1u << std::min<int64_t>(kLanes<Vector<float>>, count)) - 1);
  if (adds) sum += _mm512_maskz_loadu_ps(mask, to);
  _mm512_mask_storeu_ps(to, mask, sum);
}

}  // namespace brim::cpu

#endif
