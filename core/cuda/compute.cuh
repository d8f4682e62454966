// What kernels for GPUs compute in: halves are widened to float32 as they are read and rounded once
// as they are written. Both have the bits of core/half.h, also by the instructions that a GPU has
// for them: those differ for NaN alone.
#pragma once

#include <bit>
#include <type_traits>

#include "brim/core/dtype.h"
#include "brim/core/launch.h"

namespace brim::cuda {

template <class S>
inline constexpr bool is_half = is_low_precision(dtype_of<S>);

/// What elements stored as S are computed in.
template <class S>
using Compute = std::conditional_t<is_half<S>, float, S>;

#ifdef __CUDA_ARCH__
namespace instruction {

__device__ inline float widen(Float16 value) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  const uint32_t magnitude = value.bits & 0x7FFFu, sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t nan = sign | 0x7F800000u | (magnitude & 0x3FFu) << 13;
  return magnitude > 0x7C00u ? std::bit_cast<float>(nan) : wide;
}

__device__ inline void round(float value, Float16& to) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(value));
  if (value != value)
    to.bits = static_cast<uint16_t>((std::bit_cast<uint32_t>(value) >> 16 & 0x8000u) | 0x7E00u);
}

// From Ampere on; before, GPUs compute nothing in bfloat16.
#if __CUDA_ARCH__ >= 800
__device__ inline void round(float value, BFloat16& to) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(value));
  if (value != value) to.bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16 | 0x40u);
}
#else
__device__ inline void round(float value, BFloat16& to) { to = convert<BFloat16>(value); }
#endif

}  // namespace instruction
#endif

template <class S>
__device__ Compute<S> widen(S value) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<S, Float16>) return instruction::widen(value);
#endif
  return convert<Compute<S>>(value);
}

/// A double is first rounded to what S is computed in.
template <class S>
__device__ S round_to(Compute<S> value) {
#ifdef __CUDA_ARCH__
  if constexpr (is_half<S>) {
    S low;
    instruction::round(value, low);
    return low;
  }
#endif
  return convert<S>(value);
}

/// `convert` (core/dtype.h) by those two.
template <class To, class From>
__device__ To convert_element(From value) {
  if constexpr (!std::is_same_v<To, From> && is_half<From>)
    return convert_element<To>(widen(value));
  else if constexpr (is_half<To> && std::is_same_v<From, float>)
    return round_to<To>(value);
  else
    return convert<To>(value);
}

/// Values that belong to a tensor of S, such as weights: of S too, or of float32 beside halves.
template <class S>
class Values {
 public:
  /// Of an absent view: not present.
  explicit Values(const View& view)
      : stored_(view.dtype == dtype_of<S> ? view.as<S>() : nullptr),
        wide_(view.dtype == dtype_of<S> ? nullptr : view.as<Compute<S>>()) {}

  __device__ bool present() const { return stored_ != nullptr || wide_ != nullptr; }
  __device__ Compute<S> read(int64_t i) const {
    return stored_ == nullptr ? wide_[i] : widen(stored_[i]);
  }
  __device__ void write(int64_t i, Compute<S> value) const {
    if (stored_ == nullptr)
      wide_[i] = value;
    else
      stored_[i] = round_to<S>(value);
  }

 private:
  S* stored_;
  Compute<S>* wide_;
};

}  // namespace brim::cuda
