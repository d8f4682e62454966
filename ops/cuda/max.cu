#include <cuda_runtime_api.h>

#include "brim/core/cuda/compute.cuh"
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/reduce.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/max.h"

namespace brim::cuda {
namespace {

/// The first of the largest, or the first NaN.
template <class S>
struct Max {
  struct State {
    Compute<S> value;
    int64_t unit;  // -1: of nothing
  };

  ReducedElements elements;
  const S* x;
  S* y;
  int64_t* index;

  __device__ static bool wins(const State& a, const State& b) {
    if (a.unit < 0 || b.unit < 0) return b.unit < 0 && a.unit >= 0;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan || b_nan) return a_nan && (!b_nan || a.unit < b.unit);
    return a.value > b.value || (a.value == b.value && a.unit < b.unit);
  }
  __device__ State fold(int64_t row, int64_t column, int64_t first, int64_t units,
                        int64_t step) const {
    State best{0, -1};
    for (int64_t unit = first; unit < units; unit += step)
      join(best, {widen(x[elements.at(row, column, unit)]), unit});
    return best;
  }
  __device__ static void join(State& best, const State& other) {
    if (wins(other, best)) best = other;
  }
  __device__ void finish(int64_t row, int64_t column, const State& best) const {
    if (y != nullptr) y[row * elements.columns + column] = round_to<S>(best.value);
    if (index != nullptr) index[row * elements.columns + column] = best.unit;
  }
};

ReducedElements elements_of(const KernelCall& call) {
  const View &y = call.out[0], &index = call.out[1];
  return ReducedElements({call.in[0].shape, y.present ? y.shape : index.shape});
}

template <class S>
int64_t scratch(const KernelCall& call, const NoAttributes&) {
  if (call.in[0].numel() == 0) return 0;
  ScratchCursor cursor(nullptr);
  take_partial<Max<S>>(cursor, elements_of(call).plan());
  return cursor.used();
}

template <class S>
void max(const KernelCall& call, const NoAttributes&) {
  if (call.in[0].numel() == 0) return;  // and neither has y elements
  const View &y = call.out[0], &index = call.out[1];
  const ReducedElements elements = elements_of(call);
  ScratchCursor cursor(call.scratch);
  reduce("max", call, elements.plan(),
         Max<S>{.elements = elements,
                .x = call.in[0].as<S>(),
                .y = y.as<S>(),
                .index = index.as<int64_t>()},
         take_partial<Max<S>>(cursor, elements.plan()));
}

/// No two results have a winner in common.
template <class S>
struct ReturnElement {
  ReducedElements elements;
  const S* dy;
  const int64_t* index;
  S* dx;
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t i = at.of[0], columns = elements.columns;
    dx[elements.at(i / columns, i % columns, index[i])] = dy[i];
  }
};

template <class S>
void max_backward(const KernelCall& call, const NoAttributes&) {
  const View &dy = call.in[0], &dx = call.out[0];
  const auto bytes = static_cast<size_t>(dx.numel()) * sizeof(S);
  if (bytes == 0) return;
  check(cudaMemsetAsync(dx.data, 0, bytes, static_cast<cudaStream_t>(call.stream)),
        "cudaMemsetAsync");
  for_each_element(call, dy.numel(),
                   ReturnElement<S>{ReducedElements({dx.shape, dy.shape}), dy.as<S>(),
                                    call.in[1].as<int64_t>(), dx.as<S>()},
                   "max_backward");
}

template <class S>
void register_for() {
  register_kernel(kernel::max, DeviceType::cuda, dtype_of<S>, max<S>, scratch<S>);
  register_kernel(kernel::max_backward, DeviceType::cuda, dtype_of<S>, max_backward<S>);
}

}  // namespace

void register_max() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
