#include "brim/base/parallel.h"
#include "brim/shrink/cpu/register.h"
#include "brim/shrink/weight_masks.h"

namespace brim::cpu {
namespace {

constexpr int64_t kGrain = 65536;  // elements that repay a second thread

template <class T>
void apply_mask(const KernelCall& call, const NoAttributes&) {
  const auto* stays = call.in[0].as<bool>();
  T* x = call.out[0].as<T>();
  parallel_for(call.out[0].numel(), kGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (!stays[i]) x[i] = T{};  // also of a NaN
  });
}

}  // namespace

void register_apply_mask() {
  register_kernel(kernel::apply_mask, DeviceType::cpu, Dtype::float32, apply_mask<float>);
  register_kernel(kernel::apply_mask, DeviceType::cpu, Dtype::float64, apply_mask<double>);
  register_kernel(kernel::apply_mask, DeviceType::cpu, Dtype::float16, apply_mask<Float16>);
  register_kernel(kernel::apply_mask, DeviceType::cpu, Dtype::bfloat16, apply_mask<BFloat16>);
}

}  // namespace brim::cpu
