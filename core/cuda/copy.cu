// Copying, converting, filling and adding in place.
#include "brim/core/cuda/register.h"
#include "brim/core/cuda/strided.cuh"
#include "brim/core/cuda/vector.cuh"
#include "brim/core/kernels.h"

namespace brim::cuda {
namespace {

template <class To, class From>
struct CopyElement {
  To* to;
  const From* from;
  __device__ void operator()(const Offsets<2>& at) const {
    to[at.of[0]] = convert_element<To>(from[at.of[1]]);
  }
};

/// Of contiguous buffers: stretches that are whole packs of both types, then what is behind them.
template <class To, class From>
struct CopyStretch {
  static constexpr int kTo = Pack<To>::kCount, kFrom = Pack<From>::kCount;
  static constexpr int kCount = std::max(kTo, kFrom);
  To* to;
  const From* from;
  int64_t stretches;

  __device__ void operator()(const Offsets<1>& at) const {
    if (at.of[0] >= stretches) {
      const int64_t i = stretches * kCount + at.of[0] - stretches;
      to[i] = convert_element<To>(from[i]);
      return;
    }
    const int64_t begin = at.of[0] * kCount;
    Pack<From> read[kCount / kFrom];
    Pack<To> made[kCount / kTo];
    for (int k = 0; k < kCount / kFrom; ++k) read[k] = Pack<From>::load(from + begin + k * kFrom);
    for (int i = 0; i < kCount; ++i)
      made[i / kTo].of[i % kTo] = convert_element<To>(read[i / kFrom].of[i % kFrom]);
    for (int k = 0; k < kCount / kTo; ++k) made[k].store(to + begin + k * kTo);
  }
};

template <class To, class From>
void copy_contiguous(const KernelCall& call, int64_t count) {
  using Copy = CopyStretch<To, From>;
  To* to = call.out[0].as<To>();
  const From* from = call.in[0].as<From>();
  const int64_t stretches = is_aligned(to) && is_aligned(from) ? count / Copy::kCount : 0;
  const int64_t tail = count - stretches * Copy::kCount;
  for_each_element(call, stretches + tail, Copy{to, from, stretches}, "copy");
}

/// Pairs of types that are worth a loop of packs: what is copied or cast often.
template <class To, class From>
inline constexpr bool by_packs = std::is_same_v<To, From> ||
                                 (is_floating(dtype_of<To>) && is_floating(dtype_of<From>));

void copy_kernel(const KernelCall& call, const NoAttributes&) {
  const View &to = call.out[0], &from = call.in[0];
  StridedLoop<2> loop(to.shape, {to.strides, from.strides});
  visit_dtype(to.dtype, [&]<class To>() {
    visit_dtype(from.dtype, [&]<class From>() {
      if constexpr (by_packs<To, From>)
        if (is_contiguous(loop)) return copy_contiguous<To, From>(call, loop.count());
      for_each_element(call, loop, CopyElement<To, From>{to.as<To>(), from.as<From>()}, "copy");
    });
  });
}

template <class T>
struct FillElement {
  T* to;
  T value;
  __device__ void operator()(const Offsets<1>& at) const { to[at.of[0]] = value; }
};

void fill_kernel(const KernelCall& call, const kernel::FillAttributes& attributes) {
  const View& to = call.out[0];
  StridedLoop<1> loop(to.shape, {to.strides});
  visit_dtype(to.dtype, [&]<class T>() {
    for_each_element(call, loop, FillElement<T>{to.as<T>(), convert<T>(attributes.value)}, "fill");
  });
}

template <class S>
struct AccumulateElement {
  S* sum;
  const S* term;
  __device__ void operator()(const Offsets<2>& at) const {
    S& to = sum[at.of[0]];
    to = round_to<S>(widen(to) + widen(term[at.of[1]]));
  }
};

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

template <class S>
void accumulate_kernel(const KernelCall& call, const NoAttributes&) {
  constexpr const char* kName = "accumulate";
  S *sum = call.out[0].as<S>(), *term = call.in[0].as<S>();
  StridedLoop<2> loop(call.out[0].shape, {call.out[0].strides, call.in[0].strides});
  if (is_contiguous(loop)) return map(call, loop.count(), Plus(), kName, sum, sum, term);
  for_each_element(call, loop, AccumulateElement<S>{sum, term}, kName);
}

}  // namespace

void register_copy() {
  for (int i = 0; i < kDtypes; ++i) {
    auto dtype = static_cast<Dtype>(i);
    register_kernel(kernel::copy, DeviceType::cuda, dtype, copy_kernel);
    register_kernel(kernel::fill, DeviceType::cuda, dtype, fill_kernel);
  }
  register_kernel(kernel::accumulate, DeviceType::cuda, Dtype::float32, accumulate_kernel<float>);
  register_kernel(kernel::accumulate, DeviceType::cuda, Dtype::float64, accumulate_kernel<double>);
  register_kernel(kernel::accumulate, DeviceType::cuda, Dtype::float16, accumulate_kernel<Float16>);
  register_kernel(kernel::accumulate, DeviceType::cuda, Dtype::bfloat16,
                  accumulate_kernel<BFloat16>);
}

}  // namespace brim::cuda
