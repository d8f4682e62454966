#include "brim/core/cuda/compute.cuh"
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/add_bias.h"

namespace brim::cuda {
namespace {

template <class S>
struct AddElement {
  S* y;
  const S* bias;
  __device__ void operator()(const Offsets<2>& at) const {
    S& to = y[at.of[0]];
    to = round_to<S>(widen(to) + widen(bias[at.of[1]]));
  }
};

}  // namespace

template <class S>
void add_bias(const KernelCall& call, const View& bias, const View& y) {
  StridedLoop<2> loop(y.shape, {y.strides, broadcast_strides(bias.shape, bias.strides, y.shape)});
  for_each_element(call, loop, AddElement<S>{y.as<S>(), bias.as<S>()}, "bias kernel");
}

template void add_bias<float>(const KernelCall&, const View&, const View&);
template void add_bias<double>(const KernelCall&, const View&, const View&);
template void add_bias<Float16>(const KernelCall&, const View&, const View&);
template void add_bias<BFloat16>(const KernelCall&, const View&, const View&);

}  // namespace brim::cuda
