#include "brim/ops/max_pool2d.h"

#include "brim/ops/op.h"

namespace brim {
namespace {

class MaxPool2d final : public autograd::Op {
 public:
  explicit MaxPool2d(const PoolWindow& window) : window_(window) {}
  const char* name() const override { return "max_pool2d"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const override {
    require_floating(name(), in[0]);
    Shape shape = pooled_shape(name(), in[0].shape(), window_);
    const Pair& kernel = window_.kernel;
    expect<ValueError>(kernel.h <= 255 && kernel.w <= 255 && kernel.h * kernel.w <= 255, name(),
                       "expected a kernel of at most 255 elements, got {}", kernel);
    Tensor x = contiguous(in[0]), y = empty(shape, {.dtype = x.dtype(), .device = x.device()});
    Tensor index;
    if (context.for_backward) index = empty(shape, {.dtype = Dtype::uint8, .device = x.device()});
    launch(kernel::max_pool2d, {x}, {y, index}, window_);
    return {y, index};
  }

  autograd::Saves saves(const autograd::Needs&) const override { return {.outputs = {1}}; }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dx = empty(call.input_info(0).shape, call.input_info(0).options());
    launch(kernel::max_pool2d_backward, {call.take_grad(), call.output(1)}, {dx}, window_);
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

Tensor max_pool2d(Tensor x, MaxPool2dOptions options, Where where) {
  PoolWindow window{.kernel = options.kernel,
                    .stride = stride_or_kernel(options.stride, options.kernel),
                    .padding = options.padding,
                    .ceil_mode = options.ceil_mode};
  return autograd::apply_one(std::make_shared<MaxPool2d>(window), {std::move(x)}, where);
}

}  // namespace brim
