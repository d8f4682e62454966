#include "brim/core/launch.h"
#include "brim/core/strided_loop.h"
#include "brim/ops/comparison_kernels.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

/// Steps of 1 are known when this is compiled, and make vector code.
template <class T, class F>
void row(bool* y, const T* a, const T* b, int64_t count, const Steps<3>& step, F f) {
  if (step == Steps<3>{1, 1, 1})
    for (int64_t i = 0; i < count; ++i) y[i] = f(a[i], b[i]);
  else if (step == Steps<3>{1, 1, 0})
    for (int64_t i = 0; i < count; ++i) y[i] = f(a[i], *b);
  else
    for (int64_t i = 0; i < count; ++i) y[i] = f(a[i * step[1]], b[i * step[2]]);
}

template <class T, class F>
void compare(const KernelCall& call, const F& f) {
  const View &a = call.in[0], &b = call.in[1], &y = call.out[0];
  StridedLoop<3> loop(y.shape, {y.strides, broadcast_strides(a.shape, a.strides, y.shape),
                                broadcast_strides(b.shape, b.strides, y.shape)});
  loop.run([&](const Steps<3>& at, int64_t count, const Steps<3>& step) {
    row(y.as<bool>() + at[0], a.as<T>() + at[1], b.as<T>() + at[2], count, step, f);
  });
}

struct Registrar {
  template <class T, class F>
  void compare(const Kernel<F>& kernel) const {
    register_kernel(kernel, DeviceType::cpu, dtype_of<T>, cpu::compare<T, F>);
  }
};

}  // namespace

void register_comparison() { for_each_comparison(Registrar()); }

}  // namespace brim::cpu
