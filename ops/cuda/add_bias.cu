#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/add_bias.h"

namespace brim::cuda {
namespace {

template <class T>
struct AddElement {
  T* y;
  const T* bias;
  __device__ void operator()(const Offsets<2>& at) const { y[at.of[0]] += bias[at.of[1]]; }
};

}  // namespace

template <class T>
void add_bias(const KernelCall& call, const View& bias, const View& y) {
  StridedLoop<2> loop(y.shape, {y.strides, broadcast_strides(bias.shape, bias.strides, y.shape)});
  for_each_element(call, loop, AddElement<T>{y.as<T>(), bias.as<T>()}, "bias kernel");
}

template void add_bias<float>(const KernelCall&, const View&, const View&);
template void add_bias<double>(const KernelCall&, const View&, const View&);

}  // namespace brim::cuda
