// The gradient of a bias, for `linear` and `conv2d`: the sum of each column of a matrix.
#include "brim/core/cuda/compute.cuh"
#include "brim/ops/cuda/reduce.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/linear.h"

namespace brim::cuda {
namespace {

/// In double.
template <class S>
struct ColumnSum {
  using State = double;

  const S* dy;
  S* db;
  int64_t columns;

  __device__ double fold(int64_t, int64_t column, int64_t first, int64_t units,
                         int64_t step) const {
    double sum = 0;
    for (int64_t row = first; row < units; row += step)
      sum += static_cast<double>(widen(dy[row * columns + column]));
    return sum;
  }
  __device__ static void join(double& sum, const double& later) { sum += later; }
  __device__ void finish(int64_t, int64_t column, double sum) const {
    db[column] = round_to<S>(sum);
  }
};

ReducePlan plan_of(const KernelCall& call) {
  const int64_t columns = call.out[0].numel();
  return {1, call.in[0].numel() / columns, columns};
}

template <class S>
int64_t bias_gradient_scratch(const KernelCall& call, const NoAttributes&) {
  if (call.out[0].numel() == 0) return 0;
  ScratchCursor cursor(nullptr);
  take_partial<ColumnSum<S>>(cursor, plan_of(call));
  return cursor.used();
}

template <class S>
void bias_gradient_kernel(const KernelCall& call, const NoAttributes&) {
  if (call.out[0].numel() == 0) return;
  ScratchCursor cursor(call.scratch);
  const ColumnSum<S> sum{call.in[0].as<S>(), call.out[0].as<S>(), call.out[0].numel()};
  reduce("bias_gradient", call, plan_of(call), sum,
         take_partial<ColumnSum<S>>(cursor, plan_of(call)));
}

template <class S>
void register_for() {
  register_kernel(kernel::bias_gradient, DeviceType::cuda, dtype_of<S>, bias_gradient_kernel<S>,
                  bias_gradient_scratch<S>);
}

}  // namespace

void register_linear() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
