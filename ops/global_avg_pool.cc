#include "brim/ops/global_avg_pool.h"

#include "brim/ops/op.h"

namespace brim {
namespace {

class GlobalAvgPool final : public autograd::Op {
 public:
  const char* name() const override { return "global_avg_pool"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    require_floating(name(), in[0]);
    expect<ShapeError>(in[0].dim() == 4 && in[0].size(1) >= 1 && in[0].size(2) >= 1, name(),
                       "expected an input [N,H,W,C] with at least one pixel, got {}",
                       in[0].shape());
    Tensor x = contiguous(in[0]);
    Tensor y = empty({x.size(0), x.size(3)}, {.dtype = x.dtype(), .device = x.device()});
    launch(kernel::global_avg_pool, {x}, {y});
    return {y};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dx = empty(call.input_info(0).shape, call.input_info(0).options());
    launch(kernel::global_avg_pool_backward, {call.take_grad()}, {dx});
    return {dx};
  }

  double flops(std::span<const autograd::TensorInfo> in,
               std::span<const autograd::TensorInfo>) const override {
    return static_cast<double>(numel(in[0].shape));
  }
};

}  // namespace

Tensor global_avg_pool(Tensor x, Where where) {
  return autograd::apply_one(std::make_shared<GlobalAvgPool>(), {std::move(x)}, where);
}

}  // namespace brim
