// CUDA's kernels for the list of comparisons. Halves are compared in float32, which has them all.
#include "brim/core/cuda/compute.cuh"
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/comparison_kernels.h"
#include "brim/ops/cuda/register.h"

namespace brim::cuda {
namespace {

template <class S>
__device__ auto comparable(S x) {
  if constexpr (std::is_integral_v<S>)
    return x;
  else
    return widen(x);
}

template <class S, class F>
struct CompareElement {
  F f;
  const S *a, *b;
  bool* y;
  __device__ void operator()(const Offsets<3>& at) const {
    y[at.of[0]] = f(comparable(a[at.of[1]]), comparable(b[at.of[2]]));
  }
};

template <class S, class F>
void compare(const KernelCall& call, const F& f) {
  const View &a = call.in[0], &b = call.in[1], &y = call.out[0];
  StridedLoop<3> loop(y.shape, {y.strides, broadcast_strides(a.shape, a.strides, y.shape),
                                broadcast_strides(b.shape, b.strides, y.shape)});
  for_each_element(call, loop, CompareElement<S, F>{f, a.as<S>(), b.as<S>(), y.as<bool>()},
                   "comparison");
}

struct Registrar {
  template <class S, class F>
  void compare(const Kernel<F>& kernel) const {
    register_kernel(kernel, DeviceType::cuda, dtype_of<S>, cuda::compare<S, F>);
    if constexpr (std::is_same_v<S, float>) {
      compare<Float16>(kernel);
      compare<BFloat16>(kernel);
    }
  }
};

}  // namespace

void register_comparison() { for_each_comparison(Registrar()); }

}  // namespace brim::cuda
