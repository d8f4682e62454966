#include "brim/core/cuda/strided.cuh"
#include "brim/shrink/cuda/register.h"
#include "brim/shrink/weight_masks.h"

namespace brim::cuda {
namespace {

template <class T>
struct ApplyMask {
  const bool* stays;
  T* x;
  __device__ void operator()(const Offsets<1>& at) const {
    if (!stays[at.of[0]]) x[at.of[0]] = T{};  // also of a NaN
  }
};

template <class T>
void apply_mask(const KernelCall& call, const NoAttributes&) {
  for_each_element(call, call.out[0].numel(),
                   ApplyMask<T>{call.in[0].as<bool>(), call.out[0].as<T>()}, "apply_mask");
}

}  // namespace

void register_apply_mask() {
  constexpr DeviceType kCuda = DeviceType::cuda;
  register_kernel(kernel::apply_mask, kCuda, Dtype::float32, apply_mask<float>);
  register_kernel(kernel::apply_mask, kCuda, Dtype::float64, apply_mask<double>);
  register_kernel(kernel::apply_mask, kCuda, Dtype::float16, apply_mask<Float16>);
  register_kernel(kernel::apply_mask, kCuda, Dtype::bfloat16, apply_mask<BFloat16>);
}

}  // namespace brim::cuda
