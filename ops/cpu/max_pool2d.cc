#include "brim/ops/max_pool2d.h"

#include <limits>

#include "brim/ops/cpu/pool_loops.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

// Whole numbers as wide as V's elements: what comparing two V gives.
template <class V>
struct WholeOf {
  using type = decltype(V{} < V{});
};
template <>
struct WholeOf<float> {
  using type = int32_t;
};
template <>
struct WholeOf<double> {
  using type = int64_t;
};
template <class V>
using Whole = typename WholeOf<V>::type;

// Bytes to wide numbers and back. GCC 12 makes a detour through scalars of its own conversion.
template <class V>
inline Whole<V> load_bytes(const uint8_t* from) {
  if constexpr (kLanes<V> == 1) {
    return *from;
  } else {
#ifdef __AVX512F__
    if constexpr (kLanes<V> == 16)
      return (Whole<V>)_mm512_maskz_cvtepu8_epi32(
          0xFFFF, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(__AVX2__)
    if constexpr (kLanes<V> == 8)
      return (Whole<V>)_mm256_cvtepu8_epi32(
          _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#endif
    Whole<V> wide;
    for (int i = 0; i < kLanes<V>; ++i) wide[i] = from[i];
    return wide;
  }
}
template <class V>
inline void store_bytes(uint8_t* to, Whole<V> wide) {
  if constexpr (kLanes<V> == 1) {
    *to = static_cast<uint8_t>(wide);
  } else {
#ifdef __AVX512F__
    if constexpr (kLanes<V> == 16)
      return _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                              _mm512_maskz_cvtepi32_epi8(0xFFFF, (__m512i)wide));
#elif defined(__AVX2__)
    if constexpr (kLanes<V> == 8) {
      auto all = (__m256i)wide;
      __m128i words =
          _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
      return;
    }
#endif
    for (int i = 0; i < kLanes<V>; ++i) to[i] = static_cast<uint8_t>(wide[i]);
  }
}

// The first of the largest; the last NaN, if there is one.
template <class V, int kVectors, class S>
inline void max_over(const PoolTaps& taps, const S* x, S* y, uint8_t* index) {
  V best[kVectors];
  Whole<V> from[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    best[v] = broadcast<V>(-std::numeric_limits<Compute<S>>::infinity());
    from[v] = Whole<V>{} + taps.first();
  }
  taps.for_each([&](int tap, int64_t offset) {
    for (int v = 0; v < kVectors; ++v) {
      V value = load<V>(x + offset + v * kLanes<V>);
      auto wins = (value > best[v]) | (value != value);
      best[v] = wins ? value : best[v];
      from[v] = wins ? Whole<V>{} + tap : from[v];
    }
  });
  for (int v = 0; v < kVectors; ++v) {
    store(y + v * kLanes<V>, best[v]);
    if (index != nullptr) store_bytes<V>(index + v * kLanes<V>, from[v]);
  }
}

template <class S>
void max_pool2d(const KernelCall& call, const PoolWindow& window) {
  const S* x = call.in[0].as<S>();
  S* y = call.out[0].as<S>();
  auto* index = call.out[1].present ? call.out[1].as<uint8_t>() : nullptr;
  PoolShape shape(call.in[0].shape, call.out[0].shape);
  for_pool_outputs(shape, window, [&](const PoolTaps& taps, int64_t at) {
    for_channel_vectors<Compute<S>>(shape.channels, [&]<class V, int kVectors>(int64_t c) {
      max_over<V, kVectors>(taps, x + c, y + at + c, index == nullptr ? nullptr : index + at + c);
    });
  });
}

// Each input collects from the windows that chose it, in row-major order.
template <class V, int kVectors, class S>
inline void collect(const PoolCovers& covers, const S* dy, const uint8_t* index, S* dx) {
  V sum[kVectors] = {}, zero{};
  covers.for_each([&](int tap, int64_t offset, int64_t) {
    for (int v = 0; v < kVectors; ++v) {
      int64_t at = offset + v * kLanes<V>;
      auto chosen = load_bytes<V>(index + at) == Whole<V>{} + tap;
      sum[v] += chosen ? load<V>(dy + at) : zero;
    }
  });
  for (int v = 0; v < kVectors; ++v) store(dx + v * kLanes<V>, sum[v]);
}

template <class S>
void max_pool2d_backward(const KernelCall& call, const PoolWindow& window) {
  const S* dy = call.in[0].as<S>();
  const auto* index = call.in[1].as<uint8_t>();
  S* dx = call.out[0].as<S>();
  PoolShape shape(call.out[0].shape, call.in[0].shape);
  for_pool_inputs(shape, window, [&](const PoolCovers& covers, int64_t at) {
    for_channel_vectors<Compute<S>>(shape.channels, [&]<class V, int kVectors>(int64_t c) {
      collect<V, kVectors>(covers, dy + c, index + c, dx + at + c);
    });
  });
}

template <class S>
void register_for() {
  register_kernel(kernel::max_pool2d, DeviceType::cpu, dtype_of<S>, max_pool2d<S>);
  register_kernel(kernel::max_pool2d_backward, DeviceType::cpu, dtype_of<S>,
                  max_pool2d_backward<S>);
}

}  // namespace

void register_max_pool2d() {
  register_for<float>();
  register_for<double>();
  register_for<BFloat16>();
  register_for<Float16>();
}

}  // namespace brim::cpu
