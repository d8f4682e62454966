// float16 and bfloat16 to and from vectors of float (GCC's vector extensions, of any width), with
// the rounding of core/half.h; a NaN stays one, with another payload perhaps. For kernels.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "brim/core/dtype.h"

#ifdef __F16C__
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

/// As many elements as F has floats.
template <class F>
inline F widen(const BFloat16* from) {
  constexpr int kCount = kFloatsIn<F>;
  Lanes<uint16_t, kCount> bits;
  std::memcpy(&bits, from, sizeof(bits));
  return (F)(__builtin_convertvector(bits, Lanes<uint32_t, kCount>) << 16);
}

template <class F>
inline void narrow(BFloat16* to, F value) {
  using Words = Lanes<uint32_t, kFloatsIn<F>>;
  const Words word = (Words)value;
  const Words rounded = word + 0x7FFFu + ((word >> 16) & 1u), quiet = word | 0x400000u;
  const Words kept = (value != value) ? quiet : rounded;
  const auto bits = __builtin_convertvector(kept >> 16, Lanes<uint16_t, kFloatsIn<F>>);
  std::memcpy(static_cast<void*>(to), &bits, sizeof(bits));
}

template <class F>
inline F widen(const Float16* from) {
  constexpr int kCount = kFloatsIn<F>;
#ifdef __F16C__
  if constexpr (kCount == 8)
    return (F)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#endif
#ifdef __AVX512F__
  // Not the plain one, in which GCC 12 sees something uninitialized (PR 105593).
  if constexpr (kCount == 16)
    return (F)_mm512_maskz_cvtph_ps(0xFFFF,
                                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#endif
  F value;
  for (int i = 0; i < kCount; ++i) value[i] = static_cast<float>(from[i]);
  return value;
}

template <class F>
inline void narrow(Float16* to, F value) {
  constexpr int kCount = kFloatsIn<F>;
#ifdef __F16C__
  if constexpr (kCount == 8)
    return _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                            _mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT));
#endif
#ifdef __AVX512F__
  if constexpr (kCount == 16)
    return _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(to),
        _mm512_maskz_cvtps_ph(0xFFFF, (__m512)value, _MM_FROUND_TO_NEAREST_INT));
#endif
  for (int i = 0; i < kCount; ++i) to[i] = Float16(static_cast<float>(value[i]));
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

}  // namespace brim
