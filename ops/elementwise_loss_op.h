// Losses between two tensors of one shape, for authors of ops: the `Op` that `mse_loss`,
// `binary_cross_entropy_with_logits` and `kl_div` share. Forward reads input and target once and
// stores no term; backward writes the gradients that are wanted in one pass.
#pragma once

#include <vector>

#include "brim/ops/elementwise_loss.h"
#include "brim/ops/op.h"
#include "brim/ops/reduction.h"
#include "brim/ops/reuse.h"

namespace brim {

template <class Formula>
class ElementwiseLoss final : public autograd::Op {
 public:
  using Kernels = kernel::ElementwiseLoss<Formula>;

  ElementwiseLoss(const Kernels& kernels, const Formula& formula, Reduction reduction)
      : kernels_(kernels), formula_(formula), reduction_(reduction) {}
  const char* name() const override { return kernels_.forward.name; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    validate(in);
    Tensor x = contiguous(in[0]);
    Tensor loss =
        empty(reduces() ? Shape{} : x.shape(), {.dtype = x.dtype(), .device = x.device()});
    launch(kernels_.forward, {x, contiguous(in[1]), in.size() > 2 ? contiguous(in[2]) : Tensor()},
           {loss}, attributes(x.shape()));
    return {loss};
  }

  autograd::Saves saves(const autograd::Needs& needs) const override {
    return {.inputs = needs.size() > 2 ? std::vector<int>{0, 1, 2} : std::vector<int>{0, 1}};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor x = contiguous(call.input(0)), t = contiguous(call.input(1)), weight, dx, dt;
    if (call.inputs() > 2) weight = contiguous(call.input(2));
    Tensor dloss = call.take_grad();
    if (call.needs(1)) dt = empty_like(t);
    if (call.needs(0)) dx = reduces() ? empty_like(x) : reuse_or_empty(dloss);
    launch(kernels_.backward, x.dtype(), {dloss, x, t, weight}, {dx, dt}, attributes(x.shape()));
    Tensors grads(static_cast<size_t>(call.inputs()));
    grads[0] = dx;
    grads[1] = dt;
    return grads;
  }

 private:
  bool reduces() const { return reduction_ != Reduction::none; }

  // 1 / 0 for the mean over nothing, which then is NaN.
  kernel::ElementwiseLossAttributes<Formula> attributes(const Shape& x) const {
    double count = 1;
    if (reduction_ == Reduction::mean) count = static_cast<double>(numel(x));
    if (reduction_ == Reduction::batch_mean) count = static_cast<double>(x[0]);
    return {.formula = formula_, .reduces = reduces(), .scale = 1 / count};
  }

  void validate(const Tensors& in) const {
    const Tensor &x = in[0], &t = in[1];
    require_floating(name(), x);
    require_same_kind(name(), x, t);
    expect<ShapeError>(x.shape() == t.shape(), name(),
                       "expected input and target of one shape, got {} and {}", x.shape(),
                       t.shape());
    expect<ShapeError>(x.dim() > 0 || reduction_ != Reduction::batch_mean, name(),
                       "expected an axis of samples for batch_mean, got a scalar");
    if (in.size() < 3) return;
    expect<ShapeError>(x.dim() > 0, name(), "expected an input with channels, got a scalar");
    require_values_for(name(), x, in[2], {x.size(-1)}, "positive_weight");
  }

  const Kernels& kernels_;  // a constant of the program
  Formula formula_;
  Reduction reduction_;
};

}  // namespace brim
