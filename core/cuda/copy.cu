// Copying, converting, filling and adding in place.
#include "brim/core/cuda/register.h"
#include "brim/core/cuda/strided.cuh"
#include "brim/core/kernels.h"

namespace brim::cuda {
namespace {

template <class To, class From>
struct CopyElement {
  To* to;
  const From* from;
  __device__ void operator()(const Offsets<2>& at) const {
    to[at.of[0]] = convert<To>(from[at.of[1]]);
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

template <class T>
struct AccumulateElement {
  T* sum;
  const T* term;
  __device__ void operator()(const Offsets<2>& at) const { sum[at.of[0]] += term[at.of[1]]; }
};

template <class T>
void accumulate_kernel(const KernelCall& call, const NoAttributes&) {
  const View &to = call.out[0], &from = call.in[0];
  StridedLoop<2> loop(to.shape, {to.strides, from.strides});
  for_each_element(call, loop, AccumulateElement<T>{to.as<T>(), from.as<T>()}, "accumulate");
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
}

}  // namespace brim::cuda
