// Enters a device's kernels of the list of elementwise functors (ops/elementwise_kernels.h) into
// the table, in float32 and float64. For the files that make a device's kernels:
// ops/cpu/elementwise.cc, ops/cuda/elementwise.cu.
#pragma once

#include "brim/core/launch.h"
#include "brim/ops/elementwise_kernels.h"

namespace brim {

/// What `for_each_elementwise_kernel` calls. `Kernels` has the device, `kDevice`, and three
/// constants for each element type T and functor F, the kernels `unary<T, F>`, `binary<T, F>` and
/// `broadcast<T, F>`.
template <class Kernels>
struct ElementwiseRegistrar {
  template <class F>
  void unary(const Kernel<F>& kernel) const {
    enter(kernel, Kernels::template unary<float, F>, Kernels::template unary<double, F>);
  }
  template <class F>
  void binary(const Kernel<F>& kernel) const {
    enter(kernel, Kernels::template binary<float, F>, Kernels::template binary<double, F>);
  }
  template <class F>
  void broadcast(const Kernel<F>& kernel) const {
    enter(kernel, Kernels::template broadcast<float, F>, Kernels::template broadcast<double, F>);
  }

 private:
  template <class F>
  static void enter(const Kernel<F>& kernel, KernelFn<F> of_float, KernelFn<F> of_double) {
    register_kernel(kernel, Kernels::kDevice, Dtype::float32, of_float);
    register_kernel(kernel, Kernels::kDevice, Dtype::float64, of_double);
  }
};

}  // namespace brim
