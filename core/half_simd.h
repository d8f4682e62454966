// float16 and bfloat16 to and from vectors of float (GCC's vector extensions, of any width), with
// the rounding of core/half.h; a NaN stays one, with another payload perhaps. For kernels.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "brim/core/dtype.h"

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace brim {

template <class E, int kCount>
struct LanesOf {
  typedef E type __attribute__((vector_size(kCount * sizeof(E))));
};
template <class E, int kCount>
using Lanes = typename LanesOf<E, kCount>::type;
template <class F>
inline constexpr int kFloatsIn = static_cast<int>(sizeof(F) / sizeof(float));

/// The bits of as many halves as F has floats, and of twice as many.
template <class F>
using HalfBits = Lanes<uint16_t, kFloatsIn<F>>;
template <class F>
using TwiceHalfBits = Lanes<uint16_t, 2 * kFloatsIn<F>>;

namespace half_simd {

#ifdef __AVX512BW__
// Sixteen bfloat16 at once. GCC makes of the formulas below three shuffles where one does, and
// masks that it could do without. All of them have the same bits.
inline __m512 widen_bfloat16(__m256i bits) {
  // Each half becomes the upper one of a word, above zeros.
  const __m512i places = _mm512_set_epi16(15, 0, 14, 0, 13, 0, 12, 0, 11, 0, 10, 0, 9, 0, 8, 0, 7,
                                          0, 6, 0, 5, 0, 4, 0, 3, 0, 2, 0, 1, 0, 0, 0);
  return _mm512_castsi512_ps(
      _mm512_maskz_permutexvar_epi16(0xAAAAAAAAu, places, _mm512_castsi256_si512(bits)));
}

/// The bfloat16 nearest to each, in the upper half of its word.
inline __m512i round_to_bfloat16(__m512 value) {
  const __m512i word = _mm512_castps_si512(value);
  const __mmask16 is_odd = _mm512_test_epi32_mask(word, _mm512_set1_epi32(0x10000));
  __m512i sum = _mm512_add_epi32(word, _mm512_set1_epi32(0x7FFF));
  sum = _mm512_mask_add_epi32(sum, is_odd, sum, _mm512_set1_epi32(1));
  // Where the value is a NaN of either kind (the two lowest entries of the table), itself, quiet.
  constexpr int kQuietOfValue = 0x22;
  return _mm512_castps_si512(
      _mm512_fixupimm_ps(_mm512_castsi512_ps(sum), value, _mm512_set1_epi32(kQuietOfValue), 0));
}

/// The upper halves of the words of `first`, then those of `second`.
inline __m512i upper_halves(__m512i first, __m512i second) {
  const __m512i places =
      _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                       25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  return _mm512_permutex2var_epi16(first, places, second);
}
#endif

template <class F>
inline F widened(HalfBits<F> bits, BFloat16) {
#ifdef __AVX512BW__
  if constexpr (kFloatsIn<F> == 16) return (F)widen_bfloat16((__m256i)bits);
#endif
  return (F)(__builtin_convertvector(bits, Lanes<uint32_t, kFloatsIn<F>>) << 16);
}

template <class F>
inline F widened(HalfBits<F> bits, Float16) {
  constexpr int kCount = kFloatsIn<F>;
#ifdef __F16C__
  if constexpr (kCount == 8) return (F)_mm256_cvtph_ps((__m128i)bits);
  if constexpr (kCount == 4) return (F)_mm_cvtph_ps(_mm_cvtsi64_si128((long long)bits));
#endif
#ifdef __AVX512F__
  // Not the plain one, in which GCC 12 sees something uninitialized (PR 105593).
  if constexpr (kCount == 16) return (F)_mm512_maskz_cvtph_ps(0xFFFF, (__m256i)bits);
#endif
  F value;
  for (int i = 0; i < kCount; ++i) {
    Float16 half;
    half.bits = bits[i];
    value[i] = static_cast<float>(half);
  }
  return value;
}

template <class F>
inline HalfBits<F> narrowed(F value, BFloat16) {
#ifdef __AVX512BW__
  if constexpr (kFloatsIn<F> == 16) {
    const __m512i rounded = round_to_bfloat16((__m512)value);
    const auto twice = (TwiceHalfBits<F>)upper_halves(rounded, rounded);
    // Not the cast that there is for it, in which GCC 12 sees something uninitialized (PR 105593).
    return __builtin_shufflevector(twice, twice, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                                   15);
  }
#endif
  using Words = Lanes<uint32_t, kFloatsIn<F>>;
  const Words word = (Words)value;
  const Words rounded = word + 0x7FFFu + ((word >> 16) & 1u), quiet = word | 0x400000u;
  const Words kept = (value != value) ? quiet : rounded;
  return __builtin_convertvector(kept >> 16, HalfBits<F>);
}

template <class F>
inline HalfBits<F> narrowed(F value, Float16) {
  constexpr int kCount = kFloatsIn<F>;
#ifdef __F16C__
  if constexpr (kCount == 8)
    return (HalfBits<F>)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT);
  if constexpr (kCount == 4) {
    const __m128i bits = _mm_cvtps_ph((__m128)value, _MM_FROUND_TO_NEAREST_INT);
    return (HalfBits<F>)_mm_cvtsi128_si64(bits);
  }
#endif
#ifdef __AVX512F__
  if constexpr (kCount == 16)
    return (HalfBits<F>)_mm512_maskz_cvtps_ph(0xFFFF, (__m512)value, _MM_FROUND_TO_NEAREST_INT);
#endif
  HalfBits<F> bits;
  for (int i = 0; i < kCount; ++i) bits[i] = Float16(static_cast<float>(value[i])).bits;
  return bits;
}

}  // namespace half_simd

/// One number, by the processor where it can: a few instructions where the formulas are dozens.
inline float widen_one(Float16 half) {
#ifdef __F16C__
  return _cvtsh_ss(half.bits);
#else
  return static_cast<float>(half);
#endif
}
inline Float16 narrow_one(float value) {
#ifdef __F16C__
  Float16 half;
  half.bits = _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
  return half;
#else
  return Float16(value);
#endif
}

/// From and to the bits of `H`, BFloat16 or Float16.
template <class H, class F>
inline F widened(HalfBits<F> bits) {
  return half_simd::widened<F>(bits, H());
}
template <class H, class F>
inline HalfBits<F> narrowed(F value) {
  return half_simd::narrowed(value, H());
}

/// Of two vectors, one after the other.
template <class H, class F>
inline TwiceHalfBits<F> narrowed(F first, F second) {
#ifdef __AVX512BW__
  if constexpr (kFloatsIn<F> == 16 && std::is_same_v<H, BFloat16>)
    return (TwiceHalfBits<F>)half_simd::upper_halves(half_simd::round_to_bfloat16((__m512)first),
                                                     half_simd::round_to_bfloat16((__m512)second));
#endif
  const HalfBits<F> parts[] = {narrowed<H>(first), narrowed<H>(second)};
  TwiceHalfBits<F> both;
  std::memcpy(&both, parts, sizeof(both));
  return both;
}

/// As many elements as F has floats.
template <class F, class H>
inline F widen(const H* from) {
  HalfBits<F> bits;
  std::memcpy(&bits, from, sizeof(bits));
  return widened<H, F>(bits);
}
template <class F, class H>
inline void narrow(H* to, F value) {
  const HalfBits<F> bits = narrowed<H>(value);
  std::memcpy(static_cast<void*>(to), &bits, sizeof(bits));
}

/// to[i] = from[i], converted (core/dtype.h).
template <class To, class From>
void convert_row(To* to, const From* from, int64_t count) {
  constexpr bool kWidens = std::is_same_v<To, float> && is_low_precision(dtype_of<From>);
  constexpr bool kNarrows = std::is_same_v<From, float> && is_low_precision(dtype_of<To>);
  int64_t i = 0;
  if constexpr (kWidens || kNarrows) {
    using Floats = Lanes<float, 8>;
    for (; i + 8 <= count; i += 8) {
      if constexpr (kWidens) {
        const auto value = widen<Floats>(from + i);
        std::memcpy(to + i, &value, sizeof(value));
      } else {
        Floats value;
        std::memcpy(&value, from + i, sizeof(value));
        narrow(to + i, value);
      }
    }
  }
  for (; i < count; ++i) to[i] = convert<To>(from[i]);
}

/// Halves are added in float32.
template <class T>
T sum_of(T a, T b) {
  if constexpr (is_low_precision(dtype_of<T>))
    return T(static_cast<float>(a) + static_cast<float>(b));
  else
    return a + b;
}

/// sum[i] += term[i].
template <class T>
void add_row(T* sum, const T* term, int64_t count) {
  int64_t i = 0;
  if constexpr (is_low_precision(dtype_of<T>)) {
    using Floats = Lanes<float, 8>;
    for (; i + 8 <= count; i += 8)
      narrow(sum + i, widen<Floats>(sum + i) + widen<Floats>(term + i));
  }
  for (; i < count; ++i) sum[i] = sum_of(sum[i], term[i]);
}

}  // namespace brim
