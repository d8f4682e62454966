#include "brim/ops/relu6.h"

#include "brim/ops/op.h"
#include "brim/ops/reuse.h"

namespace brim {
namespace {

class Relu6 final : public autograd::Op {
 public:
  const char* name() const override { return "relu6"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    require_floating(name(), in[0]);
    Tensor x = contiguous(in[0]), y = empty_like(x);
    launch(kernel::relu6, {x}, {y});
    return {y};
  }

  autograd::Saves saves(const autograd::Needs&) const override { return {.outputs = {0}}; }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad(), dx = reuse_or_empty(dy);
    launch(kernel::relu6_backward, {dy, call.output(0)}, {dx});
    return {dx};
  }
};

}  // namespace

Tensor relu6(Tensor x, Where where) {
  return autograd::apply_one(std::make_shared<Relu6>(), {std::move(x)}, where);
}

}  // namespace brim
