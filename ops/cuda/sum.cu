// Sums over any axes, as ops/cpu/sum.cc adds them: some elements in T, their sums in double.
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/reduce.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/sum.h"

namespace brim::cuda {
namespace {

constexpr int kBlock = 8;  // elements added in T before their sum goes into a double

/// scale * the sum of x, or of x * factor.
template <class T, bool kFactor>
struct Sum {
  using State = double;

  ReducedElements elements;
  const T *x, *factor;
  T* y;
  double scale;

  __device__ T load(int64_t at) const {
    if constexpr (kFactor) return x[at] * factor[at];
    return x[at];
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
    y[row * elements.columns + column] = static_cast<T>(scale * sum);
  }
};

ReducedElements elements_of(const KernelCall& call) {
  return ReducedElements({call.in[0].shape, call.out[0].shape});
}

bool has_factor(const KernelCall& call) { return call.in.size() > 1 && call.in[1].present; }

template <class T>
int64_t scratch(const KernelCall& call, const kernel::SumAttributes&) {
  if (call.in[0].numel() == 0) return 0;
  ScratchCursor cursor(nullptr);
  take_partial<Sum<T, false>>(cursor, elements_of(call).plan());
  return cursor.used();
}

template <class T>
struct FillElement {
  T* y;
  T value;
  __device__ void operator()(const Offsets<1>& at) const { y[at.of[0]] = value; }
};

template <class T>
void sum(const KernelCall& call, const kernel::SumAttributes& by) {
  if (call.in[0].numel() == 0) {
    const T nothing = static_cast<T>(0 * by.scale);
    return for_each_element(call, call.out[0].numel(), FillElement<T>{call.out[0].as<T>(), nothing},
                            "sum");
  }
  const ReducedElements elements = elements_of(call);
  ScratchCursor cursor(call.scratch);
  double* partial = take_partial<Sum<T, false>>(cursor, elements.plan());
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  if (has_factor(call))
    reduce("sum", call, elements.plan(), Sum<T, true>{elements, x, call.in[1].as<T>(), y, by.scale},
           partial);
  else
    reduce("sum", call, elements.plan(), Sum<T, false>{elements, x, nullptr, y, by.scale}, partial);
}

template <class T>
struct RepeatElement {
  const T* dy;
  T* dx;
  T scale;
  __device__ void operator()(const Offsets<2>& at) const { dx[at.of[0]] = scale * dy[at.of[1]]; }
};

template <class T>
void sum_backward(const KernelCall& call, const kernel::SumAttributes& by) {
  const View &dy = call.in[0], &dx = call.out[0];
  StridedLoop<2> loop(dx.shape, {dx.strides, broadcast_strides(dy.shape, dy.strides, dx.shape)});
  for_each_element(call, loop, RepeatElement<T>{dy.as<T>(), dx.as<T>(), static_cast<T>(by.scale)},
                   "sum_backward");
}

template <class T>
void register_for() {
  register_kernel(kernel::sum, DeviceType::cuda, dtype_of<T>, sum<T>, scratch<T>);
  register_kernel(kernel::sum_backward, DeviceType::cuda, dtype_of<T>, sum_backward<T>);
}

}  // namespace

void register_sum() {
  register_for<float>();
  register_for<double>();
}

}  // namespace brim::cuda
