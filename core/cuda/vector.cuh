// Loops over contiguous buffers of one type that read and write 16 bytes at a time, the most that a
// thread of a GPU can. Where a buffer does not lie on a boundary of 16 bytes, as a slice may not,
// they go element by element, with the same results. For other loops see strided.cuh.
#pragma once

#include <algorithm>
#include <type_traits>

#include "brim/core/cuda/compute.cuh"
#include "brim/core/cuda/strided.cuh"

// Before a loop over an array that is to stay in registers.
#ifdef __CUDACC__
#define BRIM_UNROLL _Pragma("unroll")
#else
#define BRIM_UNROLL
#endif

namespace brim::cuda {

inline constexpr int kPackBytes = 16;

inline __host__ __device__ bool is_aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % kPackBytes == 0;
}

/// A GPU would stop where `address` does not lie on such a boundary; the emulator says so.
inline __device__ void require_aligned([[maybe_unused]] const void* address,
                                       [[maybe_unused]] size_t boundary) {
#ifdef BRIM_CUDA_EMULATOR
  brim::check(reinterpret_cast<uintptr_t>(address) % boundary == 0,
              "what is read or written at once lies on a boundary of its size");
#endif
}

/// Neighbouring elements.
template <class S>
struct alignas(kPackBytes) Pack {
  using Element = S;
  static constexpr int kCount = kPackBytes / sizeof(S);
  S of[kCount];

  /// Null gives zeros.
  __device__ static Pack load(const S* from) {
    require_aligned(from, kPackBytes);
    return from == nullptr ? Pack{} : *reinterpret_cast<const Pack*>(from);
  }
  /// By one instruction in any case, where what is read is not written by the same kernel. Of a
  /// plain load that only some branches use, compilers for Blackwell read single elements there.
  __device__ static Pack load_whole(const S* from) {
#ifdef __CUDA_ARCH__
    Pack pack;
    auto* words = reinterpret_cast<unsigned*>(&pack);
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(from));
    return pack;
#else
    return load(from);
#endif
  }
  __device__ void store(S* to) const {
    require_aligned(to, kPackBytes);
    *reinterpret_cast<Pack*>(to) = *this;
  }
};

/// kCount neighbouring numbers, read 16 bytes at a time: they begin on such a boundary and fill it.
template <class T, int kCount>
struct Stretch {
  static_assert(kCount % Pack<T>::kCount == 0);
  T of[kCount];

  __device__ static Stretch load(const T* from) {
    Stretch stretch;
    BRIM_UNROLL
    for (int i = 0; i < kCount; i += Pack<T>::kCount) {
      const Pack<T> pack = Pack<T>::load(from + i);
      BRIM_UNROLL
      for (int j = 0; j < Pack<T>::kCount; ++j) stretch.of[i + j] = pack.of[j];
    }
    return stretch;
  }
};

/// Packs that buffers of `count` elements begin with: 0 where one of them is not aligned.
template <class S>
int64_t packs_in(int64_t count, std::initializer_list<const S*> buffers) {
  return std::ranges::all_of(buffers, is_aligned) ? count / Pack<S>::kCount : 0;
}

template <class F, class S, class... X>
__device__ void map_pack(const F& f, int64_t begin, S* y, const Pack<X>&... x) {
  Pack<S> made;
  auto element = f.from(begin);
  BRIM_UNROLL
  for (int j = 0; j < Pack<S>::kCount; ++j, element.next())
    made.of[j] = round_to<S>(element(widen(x.of[j])...));
  made.store(y + begin);
}

/// Behind the packs, element by element.
template <class F, class S, class... X>
__global__ void map_kernel(F f, int64_t count, int64_t packs, S* y, const X*... x) {
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t pack = first; pack < packs; pack += step) {
    const int64_t begin = pack * Pack<S>::kCount;
    map_pack(f, begin, y, Pack<S>::load(x == nullptr ? x : x + begin)...);
  }
  for (int64_t i = packs * Pack<S>::kCount + first; i < count; i += step)
    y[i] = round_to<S>(f.from(i)(x == nullptr ? Compute<S>(0) : widen(x[i])...));
}

/// Enqueues y[i] = f(x[i]...), computed in `Compute<S>`, for `count` elements; an x that is null
/// has zeros, and y may be an x. `f.from(i)` makes what is called for element i and, after
/// `next()`, for the next one.
template <class F, class S, class... X>
void map_from(const KernelCall& call, int64_t count, const F& f, const char* kernel, S* y,
              const X*... x) {
  static_assert((std::is_same_v<S, X> && ...));
  if (count == 0) return;
  const int64_t packs = packs_in<S>(count, {y, x...});
  const int64_t tail = count - packs * Pack<S>::kCount;
  launch_kernel(kernel, map_kernel<F, S, X...>, {blocks_for(std::max(packs, tail)), kThreads},
                call.stream, f, count, packs, y, x...);
}

/// A formula that is the same for all elements.
template <class F>
struct Everywhere {
  F f;
  __device__ const Everywhere& from(int64_t) const { return *this; }
  __device__ void next() const {}
  template <class... T>
  __device__ auto operator()(T... x) const {
    return f(x...);
  }
};

/// The same with `f` itself.
template <class F, class S, class... X>
void map(const KernelCall& call, int64_t count, const F& f, const char* kernel, S* y,
         const X*... x) {
  map_from(call, count, Everywhere<F>{f}, kernel, y, x...);
}

}  // namespace brim::cuda
