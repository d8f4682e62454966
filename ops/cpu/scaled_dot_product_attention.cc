#include <limits>

#include "brim/base/parallel.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/scaled_dot_product_attention.h"

namespace brim::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements that repay a second thread

template <class T>
void attention_bias(const KernelCall& call, const NoAttributes&) {
  const View &mask = call.in[0], &bias = call.out[0];
  const bool* seen = mask.present ? mask.as<bool>() : nullptr;
  int64_t keys = bias.shape.empty() ? 1 : bias.shape.back();
  T *to = bias.as<T>(), hidden = -std::numeric_limits<T>::infinity();
  parallel_for(bias.numel(), kGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      to[i] = (seen != nullptr ? seen[i] : i % keys <= i / keys) ? T(0) : hidden;
  });
}

}  // namespace

void register_scaled_dot_product_attention() {
  register_kernel(kernel::attention_bias, DeviceType::cpu, Dtype::float32, attention_bias<float>);
  register_kernel(kernel::attention_bias, DeviceType::cpu, Dtype::float64, attention_bias<double>);
}

}  // namespace brim::cpu
