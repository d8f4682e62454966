// What nvcc knows by itself, for kernels that are compiled as plain C++: included before their
// first line. Of warp functions those with a mask, and of the widths of a shuffle 32 alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstring>

#define BRIM_CUDA_EMULATOR

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)

#define threadIdx (::brim::cuda::emulator::place().thread)
#define blockIdx (::brim::cuda::emulator::place().block)
#define blockDim (::brim::cuda::emulator::place().threads)
#define gridDim (::brim::cuda::emulator::place().blocks)

inline void __syncthreads() { ::brim::cuda::emulator::barrier(); }

namespace brim::cuda::emulator {

inline int lane() {
  const Place& p = place();
  return static_cast<int>((p.thread.x + p.threads.x * (p.thread.y + p.threads.y * p.thread.z)) %
                          32);
}

template <class T>
T shuffle(unsigned mask, T value, int from) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = with_warp(WarpOp::shuffle, mask, bits, from);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace brim::cuda::emulator

template <class T>
T __shfl_sync(unsigned mask, T value, int from) {
  return ::brim::cuda::emulator::shuffle(mask, value, from % 32);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
  return ::brim::cuda::emulator::shuffle(mask, value, ::brim::cuda::emulator::lane() ^ bits);
}
// A lane that would look beyond the warp's end, or before its start, keeps its own value.
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance) {
  const int own = ::brim::cuda::emulator::lane(), from = own + static_cast<int>(distance);
  return ::brim::cuda::emulator::shuffle(mask, value, from < 32 ? from : own);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance) {
  const int own = ::brim::cuda::emulator::lane(), from = own - static_cast<int>(distance);
  return ::brim::cuda::emulator::shuffle(mask, value, from >= 0 ? from : own);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  using namespace ::brim::cuda::emulator;
  return static_cast<unsigned>(with_warp(WarpOp::ballot, mask, predicate != 0));
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask;
}
inline void __syncwarp(unsigned mask = 0xffffffff) {
  ::brim::cuda::emulator::with_warp(::brim::cuda::emulator::WarpOp::sync, mask, 0);
}

// Threads run one at a time.
template <class T, class U>
T atomicAdd(T* address, U term) {
  const T before = *address;
  *address = static_cast<T>(before + static_cast<T>(term));
  return before;
}
template <class T, class U>
T atomicMax(T* address, U other) {
  const T before = *address;
  if (before < static_cast<T>(other)) *address = static_cast<T>(other);
  return before;
}
template <class T, class U>
T atomicOr(T* address, U bits) {
  const T before = *address;
  *address = static_cast<T>(before | static_cast<T>(bits));
  return before;
}
template <class T, class U, class V>
T atomicCAS(T* address, U expected, V wanted) {
  const T before = *address;
  if (before == static_cast<T>(expected)) *address = static_cast<T>(wanted);
  return before;
}
