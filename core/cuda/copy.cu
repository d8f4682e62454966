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

void copy_kernel(const KernelCall& call, const NoAttributes&) {
  const View &to = call.out[0], &from = call.in[0];
  StridedLoop<2> loop(to.shape, {to.strides, from.strides});
  visit_dtype(to.dtype, [&]<class To>() {
    visit_dtype(from.dtype, [&]<class From>() {
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
