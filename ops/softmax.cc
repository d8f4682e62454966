#include "brim/ops/softmax.h"

#include "brim/ops/op.h"
#include "brim/ops/reuse.h"

namespace brim {
namespace {

class Softmax final : public autograd::Op {
 public:
  explicit Softmax(int axis) : axis_(axis) {}
  const char* name() const override { return "softmax"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    require_floating(name(), in[0]);
    Tensor x = contiguous(in[0]), y = empty_like(x);
    launch(kernel::softmax, {x}, {y}, {.axis = normalize_axis(axis_, x.dim(), name())});
    return {y};
  }

  autograd::Saves saves(const autograd::Needs&) const override { return {.outputs = {0}}; }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad(), dx = reuse_or_empty(dy);
    launch(kernel::softmax_backward, {dy, call.output(0)}, {dx},
           {.axis = normalize_axis(axis_, dy.dim(), name())});
    return {dx};
  }

 private:
  int axis_;
};

}  // namespace

Tensor softmax(Tensor x, int axis, Where where) {
  return autograd::apply_one(std::make_shared<Softmax>(axis), {std::move(x)}, where);
}

}  // namespace brim
