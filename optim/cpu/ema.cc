#include "brim/optim/ema.h"

#include <algorithm>
#include <cmath>

#include "brim/optim/cpu/gathered_loop.h"
#include "brim/optim/cpu/register.h"

namespace brim::cpu {
namespace {

constexpr int64_t kGrain = 32768;  // elements that repay a second thread

// A decay of 0 gives the value itself, whatever the average was, and one of 1 keeps the average,
// whatever the value is: fma would keep a rounding, and a NaN.
template <class T>
void ema(const KernelCall& call, const NoAttributes&) {
  const T* value = call.in[0].as<T>();
  T *average = call.out[0].as<T>(), rest = static_cast<T>(*call.in[1].as<double>());
  gather_elements(call.out[0].numel(), kGrain, [=](int64_t begin, int64_t end) {
    if (rest == 0) return;
    if (rest == 1) {
      std::copy(value + begin, value + end, average + begin);
      return;
    }
#pragma omp simd
    for (int64_t i = begin; i < end; ++i)
      average[i] = std::fma(rest, value[i] - average[i], average[i]);
  });
}

template <class T>
void ema_swap(const KernelCall& call, const NoAttributes&) {
  T *a = call.out[0].as<T>(), *b = call.out[1].as<T>();
  gather_elements(call.out[0].numel(), kGrain, [=](int64_t begin, int64_t end) {
    std::swap_ranges(a + begin, a + end, b + begin);
  });
}

}  // namespace

void register_ema() {
  register_kernel(kernel::ema, DeviceType::cpu, Dtype::float32, ema<float>);
  register_kernel(kernel::ema, DeviceType::cpu, Dtype::float64, ema<double>);
  register_kernel(kernel::ema_swap, DeviceType::cpu, Dtype::float32, ema_swap<float>);
  register_kernel(kernel::ema_swap, DeviceType::cpu, Dtype::float64, ema_swap<double>);
}

}  // namespace brim::cpu
