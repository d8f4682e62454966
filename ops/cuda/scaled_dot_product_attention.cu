#include <limits>

#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/scaled_dot_product_attention.h"

namespace brim::cuda {
namespace {

template <class T>
struct AttentionBias {
  const bool* seen;  // or null: causal
  int64_t keys;
  T* bias;
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t i = at.of[0];
    const bool sees = seen != nullptr ? seen[i] : i % keys <= i / keys;
    bias[i] = sees ? T(0) : -std::numeric_limits<T>::infinity();
  }
};

template <class T>
void attention_bias(const KernelCall& call, const NoAttributes&) {
  const View& bias = call.out[0];
  const int64_t keys = bias.shape.empty() ? 1 : bias.shape.back();
  for_each_element(call, bias.numel(), AttentionBias<T>{call.in[0].as<bool>(), keys, bias.as<T>()},
                   "attention_bias");
}

}  // namespace

void register_scaled_dot_product_attention() {
  register_kernel(kernel::attention_bias, DeviceType::cuda, Dtype::float32, attention_bias<float>);
  register_kernel(kernel::attention_bias, DeviceType::cuda, Dtype::float64, attention_bias<double>);
}

}  // namespace brim::cuda
