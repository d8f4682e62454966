// Sums over any axes, as ops/cpu/sum.cc adds them: some elements in what they are computed in,
// their sums in double.
#include "brim/core/cuda/compute.cuh"
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/reduce.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/sum.h"

namespace brim::cuda {
namespace {

constexpr int kBlock = 8;  // elements added before their sum goes into a double

/// scale * the sum of x, or of x * factor.
template <class S, bool kFactor>
struct Sum {
  using T = Compute<S>;
  using State = double;

  ReducedElements elements;
  const S *x, *factor;
  S* y;
  double scale;

  __device__ T load(int64_t at) const {
    if constexpr (kFactor) return widen(x[at]) * widen(factor[at]);
    return widen(x[at]);
  }
  __device__ double fold(int64_t row, int64_t column, int64_t first, int64_t units,
                         int64_t step) const {
    double sum = 0;
    for (int64_t unit = first; unit < units;) {
      T block = 0;
      for (int i = 0; i < kBlock && unit < units; ++i, unit += step)
        block += load(elements.at(row, column, unit));
      sum += static_cast<double>(block);
    }
    return sum;
  }
  __device__ static void join(double& sum, const double& later) { sum += later; }
  __device__ void finish(int64_t row, int64_t column, double sum) const {
    y[row * elements.columns + column] = round_to<S>(scale * sum);
  }
};

ReducedElements elements_of(const KernelCall& call) {
  return ReducedElements({call.in[0].shape, call.out[0].shape});
}

bool has_factor(const KernelCall& call) { return call.in.size() > 1 && call.in[1].present; }

template <class S>
int64_t scratch(const KernelCall& call, const kernel::SumAttributes&) {
  if (call.in[0].numel() == 0) return 0;
  ScratchCursor cursor(nullptr);
  take_partial<Sum<S, false>>(cursor, elements_of(call).plan());
  return cursor.used();
}

template <class S>
struct FillElement {
  S* y;
  S value;
  __device__ void operator()(const Offsets<1>& at) const { y[at.of[0]] = value; }
};

template <class S>
void sum(const KernelCall& call, const kernel::SumAttributes& by) {
  if (call.in[0].numel() == 0) {
    const S nothing = convert<S>(static_cast<Compute<S>>(0 * by.scale));
    return for_each_element(call, call.out[0].numel(), FillElement<S>{call.out[0].as<S>(), nothing},
                            "sum");
  }
  const ReducedElements elements = elements_of(call);
  ScratchCursor cursor(call.scratch);
  double* partial = take_partial<Sum<S, false>>(cursor, elements.plan());
  const S* x = call.in[0].as<S>();
  S* y = call.out[0].as<S>();
  if (has_factor(call))
    reduce("sum", call, elements.plan(), Sum<S, true>{elements, x, call.in[1].as<S>(), y, by.scale},
           partial);
  else
    reduce("sum", call, elements.plan(), Sum<S, false>{elements, x, nullptr, y, by.scale}, partial);
}

template <class S>
struct RepeatElement {
  const S* dy;
  S* dx;
  Compute<S> scale;
  __device__ void operator()(const Offsets<2>& at) const {
    dx[at.of[0]] = round_to<S>(scale * widen(dy[at.of[1]]));
  }
};

template <class S>
void sum_backward(const KernelCall& call, const kernel::SumAttributes& by) {
  const View &dy = call.in[0], &dx = call.out[0];
  StridedLoop<2> loop(dx.shape, {dx.strides, broadcast_strides(dy.shape, dy.strides, dx.shape)});
  for_each_element(call, loop,
                   RepeatElement<S>{dy.as<S>(), dx.as<S>(), static_cast<Compute<S>>(by.scale)},
                   "sum_backward");
}

template <class S>
void register_for() {
  register_kernel(kernel::sum, DeviceType::cuda, dtype_of<S>, sum<S>, scratch<S>);
  register_kernel(kernel::sum_backward, DeviceType::cuda, dtype_of<S>, sum_backward<S>);
}

}  // namespace

void register_sum() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
