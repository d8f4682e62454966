// Pairs of bfloat16, one of each of two rows, as the processor multiplies them: AVX512-BF16 adds
// the products of both numbers of a pair to a float. Nothing asks here whether the processor can:
// see `onednn::has_bfloat16`.
#pragma once

#include "brim/ops/cpu/vector.h"

namespace brim::cpu {

/// A pair, the first one's number in the lower half.
using Twice = uint32_t;

}  // namespace brim::cpu

#ifdef __AVX512BW__

namespace brim::cpu {

/// 16 of them.
using Pairs = Vector<Twice>;

/// Selects the first `count` of 32 numbers.
inline __mmask32 first_of_32(int64_t count) {
  return count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
}

/// The pairs of the first 16 numbers of two vectors, and those of the last 16.
inline Pairs first_pairs(__m512i a, __m512i b) {
  const __m512i places =
      _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6,
                       37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  return (Pairs)_mm512_permutex2var_epi16(a, places, b);
}
inline Pairs last_pairs(__m512i a, __m512i b) {
  const __m512i places =
      _mm512_set_epi16(63, 31, 62, 30, 61, 29, 60, 28, 59, 27, 58, 26, 57, 25, 56, 24, 55, 23, 54,
                       22, 53, 21, 52, 20, 51, 19, 50, 18, 49, 17, 48, 16);
  return (Pairs)_mm512_permutex2var_epi16(a, places, b);
}

/// sum + the products of both numbers of each pair; subnormal numbers are taken as 0. Not the
/// intrinsic, which is for functions compiled for such processors alone.
inline Vector<float> add_products(Vector<float> sum, Pairs a, Pairs b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}

}  // namespace brim::cpu

#endif
