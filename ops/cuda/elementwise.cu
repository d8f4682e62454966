// CUDA's kernels for the list of elementwise functors: the same functors as the CPU's. Halves are
// computed in float32.
#include "brim/core/cuda/strided.cuh"
#include "brim/core/cuda/vector.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/elementwise_registrar.h"

namespace brim::cuda {
namespace {

/// out[0] = f(in[0]), contiguous
template <class S, class F>
void unary_kernel(const KernelCall& call, const F& f) {
  map(call, call.out[0].numel(), f, "elementwise kernel", call.out[0].as<S>(), call.in[0].as<S>());
}

template <class S, class F>
struct BinaryElement {
  F f;
  const S *a, *b;
  S* y;
  __device__ void operator()(const Offsets<3>& at) const {
    y[at.of[0]] = round_to<S>(f(widen(a[at.of[1]]), widen(b[at.of[2]])));
  }
};

/// out[0] = f(in[0], in[1]); inputs of any strides broadcast to the contiguous output. Contiguous
/// ones of one shape merge to a single axis.
template <class S, class F>
void binary_kernel(const KernelCall& call, const F& f) {
  constexpr const char* kName = "elementwise kernel";
  const View &a = call.in[0], &b = call.in[1], &y = call.out[0];
  StridedLoop<3> loop(y.shape, {y.strides, broadcast_strides(a.shape, a.strides, y.shape),
                                broadcast_strides(b.shape, b.strides, y.shape)});
  if (is_contiguous(loop))
    return map(call, loop.count(), f, kName, y.as<S>(), a.as<S>(), b.as<S>());
  for_each_element(call, loop, BinaryElement<S, F>{f, a.as<S>(), b.as<S>(), y.as<S>()}, kName);
}

struct Kernels {
  static constexpr DeviceType kDevice = DeviceType::cuda;
  static constexpr bool kHalves = true;
  template <class S, class F>
  static constexpr KernelFn<F> unary = unary_kernel<S, F>;
  template <class S, class F>
  static constexpr KernelFn<F> binary = binary_kernel<S, F>;
  template <class S, class F>
  static constexpr KernelFn<F> broadcast = binary_kernel<S, F>;
};

}  // namespace

void register_elementwise() { for_each_elementwise_kernel(ElementwiseRegistrar<Kernels>()); }

}  // namespace brim::cuda
