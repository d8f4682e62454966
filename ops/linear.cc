#include "brim/ops/linear.h"

#include "brim/ops/matmul.h"
#include "brim/ops/op.h"
#include "brim/ops/product.h"
#include "brim/ops/rows.h"

namespace brim {
namespace {

class Linear final : public autograd::Op {
 public:
  const char* name() const override { return "linear"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    validate(in);
    Tensor x = as_rows(in[0]), weight = contiguous(in[1]);
    Tensor bias = in.size() > 2 ? contiguous(in[2]) : Tensor();
    Shape shape = in[0].shape();
    shape[shape.size() - 1] = weight.size(0);
    Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device()});
    launch(kernel::matmul, {x, weight, bias}, {as_rows(y)}, {.transpose_b = true});
    return {y};
  }

  autograd::Saves saves(const autograd::Needs& needs) const override {
    return saves_of_product(needs);
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = as_rows(call.take_grad());
    Tensors grads(static_cast<size_t>(call.inputs()));
    auto make = [&](int i) {
      return grads[static_cast<size_t>(i)] =
                 empty(call.input_info(i).shape, call.input_info(i).options());
    };
    if (grads.size() > 2 && call.needs(2)) launch(kernel::bias_gradient, {dy}, {make(2)});
    if (call.needs(1))
      launch(kernel::matmul, {dy, as_rows(call.take_input(0)), Tensor()}, {make(1)},
             {.transpose_a = true});
    if (call.needs(0))
      launch(kernel::matmul, {dy, contiguous(call.input(1)), Tensor()}, {as_rows(make(0))});
    return grads;
  }

  /// Two per multiply and add.
  double flops(std::span<const autograd::TensorInfo> inputs,
               std::span<const autograd::TensorInfo> outputs) const override {
    return 2 * static_cast<double>(numel(outputs[0].shape)) *
           static_cast<double>(inputs[1].shape[1]);
  }

 private:
  void validate(const Tensors& in) const {
    const Tensor &x = in[0], &weight = in[1];
    require_floating(name(), x);
    require_same_kind(name(), x, weight);
    expect<ShapeError>(x.dim() >= 1, name(), "expected input [...,in], got a scalar");
    expect<ShapeError>(weight.dim() == 2, name(), "expected weight [out,in], got {}",
                       weight.shape());
    expect<ShapeError>(x.size(-1) == weight.size(1), name(),
                       "expected input features {} to match weight {}, got input {}",
                       weight.size(1), weight.shape(), x.shape());
    if (in.size() > 2) require_bias(name(), weight, in[2], weight.size(0));
  }
};

}  // namespace

Tensor linear(Tensor x, Tensor weight, Tensor bias, Where where) {
  Tensors inputs;
  inputs.push_back(std::move(x));
  inputs.push_back(std::move(weight));
  if (bias.defined()) inputs.push_back(std::move(bias));
  return autograd::apply_one(std::make_shared<Linear>(), std::move(inputs), where);
}

}  // namespace brim
