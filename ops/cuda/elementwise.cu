// CUDA's kernels for the list of elementwise functors, in float32 and float64: the same functors as
// the CPU's, one thread an element.
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/elementwise_registrar.h"

namespace brim::cuda {
namespace {

template <class T, class F>
struct UnaryElement {
  F f;
  const T* x;
  T* y;
  __device__ void operator()(const Offsets<1>& at) const { y[at.of[0]] = f(x[at.of[0]]); }
};

/// out[0] = f(in[0]), contiguous
template <class T, class F>
void unary_kernel(const KernelCall& call, const F& f) {
  for_each_element(call, call.out[0].numel(),
                   UnaryElement<T, F>{f, call.in[0].as<T>(), call.out[0].as<T>()},
                   "elementwise kernel");
}

template <class T, class F>
struct BinaryElement {
  F f;
  const T *a, *b;
  T* y;
  __device__ void operator()(const Offsets<3>& at) const {
    y[at.of[0]] = f(a[at.of[1]], b[at.of[2]]);
  }
};

/// out[0] = f(in[0], in[1]); inputs of any strides broadcast to the contiguous output. Contiguous
/// ones of one shape merge to a single axis.
template <class T, class F>
void binary_kernel(const KernelCall& call, const F& f) {
  const View &a = call.in[0], &b = call.in[1], &y = call.out[0];
  StridedLoop<3> loop(y.shape, {y.strides, broadcast_strides(a.shape, a.strides, y.shape),
                                broadcast_strides(b.shape, b.strides, y.shape)});
  for_each_element(call, loop, BinaryElement<T, F>{f, a.as<T>(), b.as<T>(), y.as<T>()},
                   "elementwise kernel");
}

struct Kernels {
  static constexpr DeviceType kDevice = DeviceType::cuda;
  template <class T, class F>
  static constexpr KernelFn<F> unary = unary_kernel<T, F>;
  template <class T, class F>
  static constexpr KernelFn<F> binary = binary_kernel<T, F>;
  template <class T, class F>
  static constexpr KernelFn<F> broadcast = binary_kernel<T, F>;
};

}  // namespace

void register_elementwise() { for_each_elementwise_kernel(ElementwiseRegistrar<Kernels>()); }

}  // namespace brim::cuda
