// Vectors as wide as the machine's registers, on GCC's vector extensions: arithmetic operators work
// on them. Another instruction set needs only another width, which is fixed when compiled: 64 bytes
// with AVX-512, else 32. For loops that keep sums in registers; plain elementwise loops are left to
// the compiler (ops/cpu/elementwise.cc).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "brim/core/half_simd.h"

#ifdef __SSE__
#include <immintrin.h>
#endif

namespace brim::cpu {

#ifdef __AVX512F__
inline constexpr int kVectorBytes = 64;
#else
inline constexpr int kVectorBytes = 32;
#endif

/// Of the widest of these on any processor: who asks whether channels fill vectors, and must get
/// the same answer everywhere, asks for these.
inline constexpr int64_t kWidestFloats = 16;

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;

/// Half as wide, for what is left of a row where whole ones do not fit any more.
template <class T>
struct HalfVectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes / 2)));
};
template <class T>
using HalfVector = typename HalfVectorOf<T>::type;

/// Elements of V; 1 where V is a plain number, so that kernels can be written for both.
template <class V>
inline constexpr int kLanes = 1;
template <>
inline constexpr int kLanes<Vector<float>> = kVectorBytes / 4;
template <>
inline constexpr int kLanes<Vector<double>> = kVectorBytes / 8;
template <>
inline constexpr int kLanes<HalfVector<float>> = kVectorBytes / 8;
template <>
inline constexpr int kLanes<HalfVector<double>> = kVectorBytes / 16;

/// A vector, not a plain number.
template <class V>
inline constexpr bool is_vector = kLanes<V> != 1;

template <class V, class T>
inline V load(const T* from) {
  V value;
  std::memcpy(&value, from, sizeof(V));
  return value;
}
template <class V, class T>
inline void store(T* to, V value) {
  std::memcpy(to, &value, sizeof(V));
}

// Halves are loaded as floats, and rounded as they are stored.
template <class V>
inline V load(const BFloat16* from) {
  if constexpr (is_vector<V>)
    return widen<V>(from);
  else
    return convert<V>(*from);
}
template <class V>
inline V load(const Float16* from) {
  if constexpr (is_vector<V>)
    return widen<V>(from);
  else if constexpr (std::is_same_v<V, float>)
    return widen_one(*from);
  else
    return convert<V>(*from);
}
template <class V>
inline void store(BFloat16* to, V value) {
  if constexpr (is_vector<V>)
    narrow(to, value);
  else
    *to = convert<BFloat16>(value);
}
template <class V>
inline void store(Float16* to, V value) {
  if constexpr (is_vector<V>)
    narrow(to, value);
  else if constexpr (std::is_same_v<V, float>)
    *to = narrow_one(value);
  else
    *to = convert<Float16>(value);
}

/// What elements of type S are computed in.
template <class S>
using Compute = std::conditional_t<is_low_precision(dtype_of<S>), float, S>;

/// As it would be if it had been stored as S.
template <class S, class V>
inline V rounded(V value) {
  if constexpr (!is_low_precision(dtype_of<S>))
    return value;
  else if constexpr (is_vector<V>)
    return widened<S, V>(narrowed<S>(value));
  else
    return convert<V>(convert<S>(value));
}

template <class V, class T>
inline V broadcast(T value) {
  return value - V{};  // exact, for a negative zero too
}

// a * b + c with one rounding.
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
inline double fma(double a, double b, double c) { return std::fma(a, b, c); }
#if defined(__AVX512F__)
inline Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return _mm512_fmadd_pd(a, b, c);
}
inline HalfVector<float> fma(HalfVector<float> a, HalfVector<float> b, HalfVector<float> c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline HalfVector<double> fma(HalfVector<double> a, HalfVector<double> b, HalfVector<double> c) {
  return _mm256_fmadd_pd(a, b, c);
}
#elif defined(__FMA__)
inline Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return _mm256_fmadd_pd(a, b, c);
}
inline HalfVector<float> fma(HalfVector<float> a, HalfVector<float> b, HalfVector<float> c) {
  return _mm_fmadd_ps(a, b, c);
}
inline HalfVector<double> fma(HalfVector<double> a, HalfVector<double> b, HalfVector<double> c) {
  return _mm_fmadd_pd(a, b, c);
}
#else
template <class V>
inline V fma(V a, V b, V c) {
  V result;
  for (int i = 0; i < kLanes<V>; ++i) result[i] = std::fma(a[i], b[i], c[i]);
  return result;
}
#endif

/// Calls `body<V>(i)` for all of [0, width): V is a vector of T from element i, at the end a T.
template <class T, class Body>
inline void for_lanes(int64_t width, const Body& body) {
  constexpr int64_t kStep = kLanes<Vector<T>>;
  int64_t i = 0;
  for (; i + kStep <= width; i += kStep) body.template operator()<Vector<T>>(i);
  for (; i < width; ++i) body.template operator()<T>(i);
}

/// The same, but that half a vector comes before the plain numbers. For loops whose body is worth
/// compiling three times.
template <class T, class Body>
inline void for_lanes_and_halves(int64_t width, const Body& body) {
  constexpr int64_t kStep = kLanes<Vector<T>>, kHalf = kLanes<HalfVector<T>>;
  int64_t i = 0;
  for (; i + kStep <= width; i += kStep) body.template operator()<Vector<T>>(i);
  if (i + kHalf <= width) {
    body.template operator()<HalfVector<T>>(i);
    i += kHalf;
  }
  for (; i < width; ++i) body.template operator()<T>(i);
}

/// The same pointer, of unknown origin: addresses near it are then computed from it where they are
/// used. Otherwise GCC keeps a pointer to each stream of a loop and runs out of registers.
template <class T>
inline T* opaque(T* pointer) {
  asm("" : "+r"(pointer));
  return pointer;
}

#ifdef __AVX__
/// Stores B, of 16, 32 or 64 bytes, past the caches.
template <class B>
inline void stream_bits(void* to, B bits) {
  static_assert(sizeof(B) == 64 || sizeof(B) == 32 || sizeof(B) == 16);
#ifdef __AVX512F__
  if constexpr (sizeof(B) == 64) _mm512_stream_si512(static_cast<__m512i*>(to), (__m512i)bits);
#endif
  if constexpr (sizeof(B) == 32) _mm256_stream_si256(static_cast<__m256i*>(to), (__m256i)bits);
  if constexpr (sizeof(B) == 16) _mm_stream_si128(static_cast<__m128i*>(to), (__m128i)bits);
}
#endif

/// Stores past the caches, where the machine can and V is a whole vector; `to` is aligned to what
/// is stored: a vector, or half of one where it is rounded to halves. The stores that fill a line of
/// the caches follow each other soon: a line that is left half written costs more than it saves. A
/// thread ends a series with `stream_fence`.
template <class V, class T>
inline void stream(T* to, V value) {
#ifdef __AVX__
  if constexpr (sizeof(V) == kVectorBytes) {
    if constexpr (is_low_precision(dtype_of<T>))
      return stream_bits(to, narrowed<T>(value));
    else
      return stream_bits(to, value);
  }
#endif
  store(to, value);
}
/// The same of two vectors, one after the other: where they are rounded to halves, `to` is aligned
/// to a vector.
template <class V, class T>
inline void stream(T* to, V first, V second) {
#ifdef __AVX__
  if constexpr (sizeof(V) == kVectorBytes && is_low_precision(dtype_of<T>))
    return stream_bits(to, narrowed<T>(first, second));
#endif
  stream(to, first);
  stream(to + kLanes<V>, second);
}
inline void stream_fence() {
#ifdef __SSE__
  _mm_sfence();
#endif
}

/// Fetches the cache lines of [from, from + count).
template <class T>
inline void prefetch(const T* from, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / static_cast<int64_t>(sizeof(T)))
    __builtin_prefetch(from + i);
}

}  // namespace brim::cpu
