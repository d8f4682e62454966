#include "brim/ops/avg_pool2d.h"

#include "brim/ops/op.h"

namespace brim {
namespace {

class AvgPool2d final : public autograd::Op {
 public:
  explicit AvgPool2d(const PoolWindow& window) : window_(window) {}
  const char* name() const override { return "avg_pool2d"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    require_floating(name(), in[0]);
    Shape shape = pooled_shape(name(), in[0].shape(), window_);
    Tensor x = contiguous(in[0]), y = empty(shape, {.dtype = x.dtype(), .device = x.device()});
    launch(kernel::avg_pool2d, {x}, {y}, window_);
    return {y};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dx = empty(call.input_info(0).shape, call.input_info(0).options());
    launch(kernel::avg_pool2d_backward, {call.take_grad()}, {dx}, window_);
    return {dx};
  }

  double flops(std::span<const autograd::TensorInfo>,
               std::span<const autograd::TensorInfo> out) const override {
    return static_cast<double>(numel(out[0].shape) * window_.kernel.h * window_.kernel.w);
  }

 private:
  PoolWindow window_;
};

}  // namespace

Tensor avg_pool2d(Tensor x, AvgPool2dOptions options, Where where) {
  PoolWindow window{.kernel = options.kernel,
                    .stride = stride_or_kernel(options.stride, options.kernel),
                    .padding = options.padding,
                    .count_include_pad = options.count_include_pad};
  return autograd::apply_one(std::make_shared<AvgPool2d>(window), {std::move(x)}, where);
}

}  // namespace brim
