#include "brim/ops/div.h"

#include "brim/ops/binary.h"
#include "brim/ops/broadcast.h"
#include "brim/ops/reuse.h"

namespace brim {
namespace {

class Div final : public autograd::Op {
 public:
  const char* name() const override { return "div"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const override {
    return {launch_binary(kernel::div, in, context)};
  }

  std::vector<int> overwrites() const override { return {0, 1}; }
  bool is_one_pass() const override { return true; }
  bool is_rowwise() const override { return true; }

  autograd::Saves saves(const autograd::Needs& needs) const override {
    autograd::Saves saves{.inputs = {1}};
    if (needs[1]) saves.outputs.push_back(0);
    return saves;
  }

  // With q = dy / b: da = q, db = -q * y.
  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad(), q = reuse_or_empty(dy);
    launch(kernel::div, {dy, call.input(1)}, {q});
    dy = Tensor();
    Tensors grads(2);
    if (call.needs(1)) {
      grads[1] = unbroadcast_product(q, call.output(0), call.input_info(1).shape);
      launch(kernel::neg, {grads[1]}, {grads[1]});
    }
    if (call.needs(0)) grads[0] = unbroadcast(q, call.input_info(0).shape);
    return grads;
  }
};

}  // namespace

Tensor div(Tensor a, Tensor b, Where where) {
  return autograd::apply_one(std::make_shared<Div>(), {std::move(a), std::move(b)}, where);
}

}  // namespace brim
