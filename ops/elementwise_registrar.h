// Enters a device's kernels of the list of elementwise functors (ops/elementwise_kernels.h) into
// the table, in float32, float64 and where it has them the halves. For the files that make a
// device's kernels: ops/cpu/elementwise.cc, ops/cuda/elementwise.cu.
#pragma once

#include "brim/core/launch.h"
#include "brim/ops/elementwise_kernels.h"

namespace brim {

/// What `for_each_elementwise_kernel` calls. `Kernels` has the device, `kDevice`, whether it has
/// kernels for halves too, `kHalves`, and three constants for each element type T and functor F,
/// the kernels `unary<T, F>`, `binary<T, F>` and `broadcast<T, F>`.
template <class Kernels>
struct ElementwiseRegistrar {
  template <class F>
  void unary(const Kernel<F>& kernel) const {
    enter<float>(kernel, Kernels::template unary<float, F>);
    enter<double>(kernel, Kernels::template unary<double, F>);
    if constexpr (Kernels::kHalves) {
      enter<Float16>(kernel, Kernels::template unary<Float16, F>);
      enter<BFloat16>(kernel, Kernels::template unary<BFloat16, F>);
    }
  }
  template <class F>
  void binary(const Kernel<F>& kernel) const {
    enter<float>(kernel, Kernels::template binary<float, F>);
    enter<double>(kernel, Kernels::template binary<double, F>);
    if constexpr (Kernels::kHalves) {
      enter<Float16>(kernel, Kernels::template binary<Float16, F>);
      enter<BFloat16>(kernel, Kernels::template binary<BFloat16, F>);
    }
  }
  template <class F>
  void broadcast(const Kernel<F>& kernel) const {
    enter<float>(kernel, Kernels::template broadcast<float, F>);
    enter<double>(kernel, Kernels::template broadcast<double, F>);
    if constexpr (Kernels::kHalves) {
      enter<Float16>(kernel, Kernels::template broadcast<Float16, F>);
      enter<BFloat16>(kernel, Kernels::template broadcast<BFloat16, F>);
    }
  }

 private:
  template <class T, class F>
  static void enter(const Kernel<F>& kernel, KernelFn<F> of_type) {
    register_kernel(kernel, Kernels::kDevice, dtype_of<T>, of_type);
  }
};

}  // namespace brim
