#include "brim/ops/cuda/reduce.cuh"
#include "brim/optim/cuda/register.h"
#include "brim/optim/gradient_reader.h"
#include "brim/optim/optimizer.h"

namespace brim::cuda {
namespace {

/// 0 * x is a zero for every finite x and NaN for the others, and NaN survives a sum.
template <class T, class S>
struct SquareSum {
  struct State {
    double squares;
    T zeros;
  };
  const double* scalars;
  const S* x;
  double* sum;

  __device__ State fold(int64_t, int64_t, int64_t first, int64_t units, int64_t step) const {
    const auto read = optim::GradientReader<T>::from(scalars);
    State state{0, 0};
    for (int64_t i = first; i < units; i += step) {
      const T element = convert<T>(x[i]);
      const auto value = static_cast<double>(read(element));
      state.squares += value * value;
      state.zeros += 0 * element;
    }
    return state;
  }
  __device__ static void join(State& state, const State& later) {
    state.squares += later.squares;
    state.zeros += later.zeros;
  }
  __device__ void finish(int64_t, int64_t, const State& state) const {
    *sum = state.squares + static_cast<double>(state.zeros);
  }
};

ReducePlan plan_of(const KernelCall& call) { return {1, call.in[0].numel(), 1}; }

template <class T, class S>
int64_t scratch(const KernelCall& call, const NoAttributes&) {
  ScratchCursor cursor(nullptr);
  take_partial<SquareSum<T, S>>(cursor, plan_of(call));
  return cursor.used();
}

template <class T, class S>
void square_sum(const KernelCall& call, const NoAttributes&) {
  ScratchCursor cursor(call.scratch);
  reduce("square_sum", call, plan_of(call),
         SquareSum<T, S>{call.in[1].as<double>(), call.in[0].as<S>(), call.out[0].as<double>()},
         take_partial<SquareSum<T, S>>(cursor, plan_of(call)));
}

template <class T, class S = T>
void register_for() {
  register_kernel(kernel::square_sum, DeviceType::cuda, dtype_of<S>, square_sum<T, S>,
                  scratch<T, S>);
}

}  // namespace

void register_square_sum() {
  register_for<float>();
  register_for<double>();
  register_for<float, BFloat16>();
}

}  // namespace brim::cuda
