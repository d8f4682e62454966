#include "brim/ops/where.h"

#include "brim/ops/broadcast.h"
#include "brim/ops/op.h"
#include "brim/ops/reuse.h"

namespace brim {
namespace {

class WhereOp final : public autograd::Op {
 public:
  const char* name() const override { return "where"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    const Tensor &condition = in[0], &a = in[1], &b = in[2];
    expect<DtypeError>(condition.dtype() == Dtype::boolean, name(),
                       "expected a condition of bool, got {}", condition.dtype());
    require_floating(name(), a);
    require_same_kind(name(), a, b);
    expect<DeviceError>(condition.device() == a.device(), name(),
                        "expected one device, got {} and {}", condition.device(), a.device());
    Shape both = broadcast_shapes(a.shape(), b.shape(), name());
    Tensor y = empty(broadcast_shapes(condition.shape(), both, name()),
                     {.dtype = a.dtype(), .device = a.device()});
    launch(kernel::where, {condition, a, b}, {y});
    return {y};
  }

  autograd::Saves saves(const autograd::Needs&) const override { return {.inputs = {0}}; }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor condition = call.input(0), dy = call.take_grad();
    Tensors grads(3);
    if (call.needs(1)) {
      Tensor taken = call.needs(2) ? empty_like(dy) : reuse_or_empty(dy);
      launch(kernel::where, {condition, dy, Tensor()}, {taken});
      grads[1] = unbroadcast(taken, call.input_info(1).shape);
    }
    if (call.needs(2)) {
      Tensor taken = reuse_or_empty(dy);
      launch(kernel::where, {condition, Tensor(), dy}, {taken});
      grads[2] = unbroadcast(taken, call.input_info(2).shape);
    }
    return grads;
  }
};

}  // namespace

Tensor where(Tensor condition, Tensor a, Tensor b, Where where) {
  return autograd::apply_one(std::make_shared<WhereOp>(),
                             {std::move(condition), std::move(a), std::move(b)}, where);
}

}  // namespace brim
