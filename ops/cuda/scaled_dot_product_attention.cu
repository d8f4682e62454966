#include <limits>

#include "brim/core/cuda/compute.cuh"
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/scaled_dot_product_attention.h"

namespace brim::cuda {
namespace {

template <class S>
struct AttentionBias {
  const bool* seen;  // or null: causal
  int64_t keys;
  S* bias;
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t i = at.of[0];
    const bool sees = seen != nullptr ? seen[i] : i % keys <= i / keys;
    using T = Compute<S>;
    bias[i] = round_to<S>(sees ? T(0) : -std::numeric_limits<T>::infinity());
  }
};

template <class S>
void attention_bias(const KernelCall& call, const NoAttributes&) {
  const View& bias = call.out[0];
  const int64_t keys = bias.shape.empty() ? 1 : bias.shape.back();
  for_each_element(call, bias.numel(), AttentionBias<S>{call.in[0].as<bool>(), keys, bias.as<S>()},
                   "attention_bias");
}

}  // namespace

void register_scaled_dot_product_attention() {
  constexpr DeviceType kCuda = DeviceType::cuda;
  register_kernel(kernel::attention_bias, kCuda, Dtype::float32, attention_bias<float>);
  register_kernel(kernel::attention_bias, kCuda, Dtype::float64, attention_bias<double>);
  register_kernel(kernel::attention_bias, kCuda, Dtype::float16, attention_bias<Float16>);
  register_kernel(kernel::attention_bias, kCuda, Dtype::bfloat16, attention_bias<BFloat16>);
}

}  // namespace brim::cuda
