#include "brim/ops/adaptive_avg_pool2d.h"

#include "brim/ops/global_avg_pool.h"
#include "brim/ops/op.h"

namespace brim {
namespace {

class AdaptiveAvgPool2d final : public autograd::Op {
 public:
  explicit AdaptiveAvgPool2d(Pair output) : output_(output) {}
  const char* name() const override { return "adaptive_avg_pool2d"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    require_floating(name(), in[0]);
    expect<ShapeError>(in[0].dim() == 4 && in[0].size(1) >= 1 && in[0].size(2) >= 1, name(),
                       "expected an input [N,H,W,C] with at least one pixel, got {}",
                       in[0].shape());
    Tensor x = contiguous(in[0]);
    Tensor y = empty({x.size(0), output_.h, output_.w, x.size(3)},
                     {.dtype = x.dtype(), .device = x.device()});
    if (to_one_pixel())
      launch(kernel::global_avg_pool, {x}, {y.view_as({x.size(0), x.size(3)})});
    else
      launch(kernel::adaptive_avg_pool2d, {x}, {y});
    return {y};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    const autograd::TensorInfo& x = call.input_info(0);
    Tensor dy = call.take_grad(), dx = empty(x.shape, x.options());
    if (to_one_pixel())
      launch(kernel::global_avg_pool_backward, {dy.view_as({x.shape[0], x.shape[3]})}, {dx});
    else
      launch(kernel::adaptive_avg_pool2d_backward, {dy}, {dx});
    return {dx};
  }

  double flops(std::span<const autograd::TensorInfo> in,
               std::span<const autograd::TensorInfo> out) const override {
    return static_cast<double>(std::max(numel(in[0].shape), numel(out[0].shape)));
  }

 private:
  // One window over everything, which has a faster kernel.
  bool to_one_pixel() const { return output_ == Pair(1); }

  Pair output_;
};

}  // namespace

Tensor adaptive_avg_pool2d(Tensor x, Pair output, Where where) {
  expect<ValueError>(output.h >= 1 && output.w >= 1, "adaptive_avg_pool2d",
                     "expected an output size of at least 1, got {}", output);
  return autograd::apply_one(std::make_shared<AdaptiveAvgPool2d>(output), {std::move(x)}, where);
}

}  // namespace brim
