// CUDA's kernels of losses between two tensors of one shape, from the formulas that all devices
// share (ops/loss_functors.h).
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/binary_cross_entropy_with_logits.h"
#include "brim/ops/cuda/reduce.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/elementwise_loss.h"
#include "brim/ops/kl_div.h"
#include "brim/ops/mse_loss.h"

namespace brim::cuda {
namespace {

/// What the terms are made from: input, target, the weight of the element's channel.
template <class T>
struct Operands {
  const T *x, *target, *weights;
  int64_t channels, count;

  /// Buffers `first` to `first` + 2 of the call.
  Operands(const KernelCall& call, size_t first)
      : x(call.in[first].as<T>()),
        target(call.in[first + 1].as<T>()),
        weights(call.in[first + 2].as<T>()),
        channels(weights == nullptr ? 1 : call.in[first + 2].numel()),
        count(call.in[first].numel()) {}
  __device__ T weight(int64_t i) const { return weights == nullptr ? T(1) : weights[i % channels]; }
  ReducePlan plan() const { return {1, count, 1}; }
};

template <class T, class Formula>
struct Term {
  Formula formula;
  Operands<T> by;
  T* loss;
  __device__ T term(int64_t i) const { return formula.loss(by.x[i], by.target[i], by.weight(i)); }
  __device__ void operator()(const Offsets<1>& at) const { loss[at.of[0]] = term(at.of[0]); }
};

template <class T, class Formula>
struct Total {
  using State = double;
  Term<T, Formula> of;
  double scale;
  __device__ double fold(int64_t, int64_t, int64_t first, int64_t units, int64_t step) const {
    double sum = 0;
    for (int64_t i = first; i < units; i += step) sum += static_cast<double>(of.term(i));
    return sum;
  }
  __device__ static void join(double& sum, const double& later) { sum += later; }
  __device__ void finish(int64_t, int64_t, double sum) const {
    *of.loss = static_cast<T>(scale * sum);
  }
};

template <class T, class Formula>
int64_t loss_scratch(const KernelCall& call,
                     const kernel::ElementwiseLossAttributes<Formula>& attributes) {
  ScratchCursor cursor(nullptr);
  if (attributes.reduces) take_partial<Total<T, Formula>>(cursor, Operands<T>(call, 0).plan());
  return cursor.used();
}

template <class T, class Formula>
void loss(const KernelCall& call, const kernel::ElementwiseLossAttributes<Formula>& attributes) {
  const Operands<T> by(call, 0);
  const Term<T, Formula> term{attributes.formula, by, call.out[0].as<T>()};
  if (!attributes.reduces) return for_each_element(call, by.count, term, "loss");
  ScratchCursor cursor(call.scratch);
  reduce("loss", call, by.plan(), Total<T, Formula>{term, attributes.scale},
         take_partial<Total<T, Formula>>(cursor, by.plan()));
}

template <class T, class Formula>
struct TermGradient {
  Formula formula;
  Operands<T> by;
  const T* dloss;
  bool one;  // gradient for all
  double scale;
  T *dx, *dtarget;  // or null
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t i = at.of[0];
    const T g = static_cast<T>(static_cast<double>(dloss[one ? 0 : i]) * scale);
    const T x = by.x[i], t = by.target[i], weight = by.weight(i);
    if (dtarget != nullptr) dtarget[i] = g * formula.by_target(x, t, weight);
    if (dx != nullptr) dx[i] = g * formula.by_input(x, t, weight);
  }
};

template <class T, class Formula>
void loss_backward(const KernelCall& call,
                   const kernel::ElementwiseLossAttributes<Formula>& attributes) {
  const Operands<T> by(call, 1);
  for_each_element(call, by.count,
                   TermGradient<T, Formula>{.formula = attributes.formula,
                                            .by = by,
                                            .dloss = call.in[0].as<T>(),
                                            .one = attributes.reduces,
                                            .scale = attributes.scale,
                                            .dx = call.out[0].as<T>(),
                                            .dtarget = call.out[1].as<T>()},
                   "loss_backward");
}

template <class T, class Formula>
void register_for(const kernel::ElementwiseLoss<Formula>& kernels) {
  register_kernel(kernels.forward, DeviceType::cuda, dtype_of<T>, loss<T, Formula>,
                  loss_scratch<T, Formula>);
  register_kernel(kernels.backward, DeviceType::cuda, dtype_of<T>, loss_backward<T, Formula>);
}

template <class Formula>
void register_loss(const kernel::ElementwiseLoss<Formula>& kernels) {
  register_for<float>(kernels);
  register_for<double>(kernels);
}

}  // namespace

void register_elementwise_loss() {
  register_loss(kernel::mse_loss);
  register_loss(kernel::binary_cross_entropy_with_logits);
  register_loss(kernel::kl_div);
}

}  // namespace brim::cuda
