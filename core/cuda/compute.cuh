// What kernels for GPUs compute in: halves are widened to float32 as they are read and rounded once
// as they are written. Both have the bits of core/half.h; a GPU has instructions for them, which
// leave only NaN to it.
#pragma once

#include <type_traits>

#include "brim/core/dtype.h"
#include "brim/core/launch.h"

namespace brim::cuda {

template <class S>
inline constexpr bool is_half = is_low_precision(dtype_of<S>);

/// What elements stored as S are computed in.
template <class S>
using Compute = std::conditional_t<is_half<S>, float, S>;

template <class S>
__device__ Compute<S> widen(S value) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<S, Float16>) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    if (wide == wide) return wide;
  }
#endif
  return convert<Compute<S>>(value);
}

/// A double is first rounded to what S is computed in.
template <class S>
__device__ S round_to(Compute<S> value) {
#ifdef __CUDA_ARCH__
  if constexpr (is_half<S>) {
    S low;
    if constexpr (std::is_same_v<S, Float16>)
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(low.bits) : "f"(value));
    else
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(low.bits) : "f"(value));
    if (value == value) return low;
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
