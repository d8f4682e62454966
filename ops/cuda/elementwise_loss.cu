// CUDA's kernels of losses between two tensors of one shape, from the formulas that all devices
// share (ops/loss_functors.h).
#include "brim/core/cuda/compute.cuh"
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
template <class S>
struct Operands {
  using T = Compute<S>;
  const S *x, *target;
  Values<S> weights;
  int64_t channels, count;

  /// Buffers `first` to `first` + 2 of the call.
  Operands(const KernelCall& call, size_t first)
      : x(call.in[first].as<S>()),
        target(call.in[first + 1].as<S>()),
        weights(call.in[first + 2]),
        channels(call.in[first + 2].present ? call.in[first + 2].numel() : 1),
        count(call.in[first].numel()) {}
  __device__ T weight(int64_t i) const {
    return weights.present() ? weights.read(i % channels) : T(1);
  }
  ReducePlan plan() const { return {1, count, 1}; }
};

template <class S, class Formula>
struct Term {
  Formula formula;
  Operands<S> by;
  S* loss;
  __device__ Compute<S> term(int64_t i) const {
    return formula.loss(widen(by.x[i]), widen(by.target[i]), by.weight(i));
  }
  __device__ void operator()(const Offsets<1>& at) const {
    loss[at.of[0]] = round_to<S>(term(at.of[0]));
  }
};

template <class S, class Formula>
struct Total {
  using State = double;
  Term<S, Formula> of;
  double scale;
  __device__ double fold(int64_t, int64_t, int64_t first, int64_t units, int64_t step) const {
    double sum = 0;
    for (int64_t i = first; i < units; i += step) sum += static_cast<double>(of.term(i));
    return sum;
  }
  __device__ static void join(double& sum, const double& later) { sum += later; }
  __device__ void finish(int64_t, int64_t, double sum) const {
    *of.loss = round_to<S>(scale * sum);
  }
};

template <class S, class Formula>
int64_t loss_scratch(const KernelCall& call,
                     const kernel::ElementwiseLossAttributes<Formula>& attributes) {
  ScratchCursor cursor(nullptr);
  if (attributes.reduces) take_partial<Total<S, Formula>>(cursor, Operands<S>(call, 0).plan());
  return cursor.used();
}

template <class S, class Formula>
void loss(const KernelCall& call, const kernel::ElementwiseLossAttributes<Formula>& attributes) {
  const Operands<S> by(call, 0);
  const Term<S, Formula> term{attributes.formula, by, call.out[0].as<S>()};
  if (!attributes.reduces) return for_each_element(call, by.count, term, "loss");
  ScratchCursor cursor(call.scratch);
  reduce("loss", call, by.plan(), Total<S, Formula>{term, attributes.scale},
         take_partial<Total<S, Formula>>(cursor, by.plan()));
}

template <class S, class Formula>
struct TermGradient {
  using T = Compute<S>;
  Formula formula;
  Operands<S> by;
  const S* dloss;
  bool one;  // gradient for all
  double scale;
  S *dx, *dtarget;  // or null
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t i = at.of[0];
    const T g = static_cast<T>(static_cast<double>(widen(dloss[one ? 0 : i])) * scale);
    const T x = widen(by.x[i]), t = widen(by.target[i]), weight = by.weight(i);
    if (dtarget != nullptr) dtarget[i] = round_to<S>(g * formula.by_target(x, t, weight));
    if (dx != nullptr) dx[i] = round_to<S>(g * formula.by_input(x, t, weight));
  }
};

template <class S, class Formula>
void loss_backward(const KernelCall& call,
                   const kernel::ElementwiseLossAttributes<Formula>& attributes) {
  const Operands<S> by(call, 1);
  for_each_element(call, by.count,
                   TermGradient<S, Formula>{.formula = attributes.formula,
                                            .by = by,
                                            .dloss = call.in[0].as<S>(),
                                            .one = attributes.reduces,
                                            .scale = attributes.scale,
                                            .dx = call.out[0].as<S>(),
                                            .dtarget = call.out[1].as<S>()},
                   "loss_backward");
}

template <class S, class Formula>
void register_for(const kernel::ElementwiseLoss<Formula>& kernels) {
  register_kernel(kernels.forward, DeviceType::cuda, dtype_of<S>, loss<S, Formula>,
                  loss_scratch<S, Formula>);
  register_kernel(kernels.backward, DeviceType::cuda, dtype_of<S>, loss_backward<S, Formula>);
}

template <class Formula>
void register_loss(const kernel::ElementwiseLoss<Formula>& kernels) {
  register_for<float>(kernels);
  register_for<double>(kernels);
  register_for<Float16>(kernels);
  register_for<BFloat16>(kernels);
}

}  // namespace

void register_elementwise_loss() {
  register_loss(kernel::mse_loss);
  register_loss(kernel::binary_cross_entropy_with_logits);
  register_loss(kernel::kl_div);
}

}  // namespace brim::cuda
