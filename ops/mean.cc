#include "brim/ops/mean.h"

#include "brim/ops/op.h"

namespace brim {
namespace {

class Mean final : public autograd::Op {
 public:
  Mean(std::vector<int> axes, ReduceOptions options) : axes_(std::move(axes)), options_(options) {}
  const char* name() const override { return "mean"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    require_floating(name(), in[0]);
    Tensor x = contiguous(in[0]);
    Tensor y =
        empty(reduced_shape(x.shape(), axes_, name()), {.dtype = x.dtype(), .device = x.device()});
    launch(kernel::sum, {x}, {y}, {.scale = scale_for(x.shape())});
    return {options_.keepdim ? y : y.view_as(squeezed_shape(x.shape(), axes_, name()))};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    const autograd::TensorInfo& x = call.input_info(0);
    Tensor dy = call.take_grad().view_as(reduced_shape(x.shape, axes_, name()));
    Tensor dx = empty(x.shape, x.options());
    launch(kernel::sum_backward, {dy}, {dx}, {.scale = scale_for(x.shape)});
    return {dx};
  }

  double flops(std::span<const autograd::TensorInfo> in,
               std::span<const autograd::TensorInfo>) const override {
    return static_cast<double>(numel(in[0].shape));
  }

 private:
  // One over the number of terms; infinite for none, and 0 * infinity is the NaN we want.
  double scale_for(const Shape& x) const {
    Shape kept = reduced_shape(x, axes_, name());
    double terms = 1;
    for (int axis = 0; axis < x.size(); ++axis)
      if (kept[axis] != x[axis]) terms *= static_cast<double>(x[axis]);
    return 1 / terms;
  }

  std::vector<int> axes_;
  ReduceOptions options_;
};

}  // namespace

Tensor mean(Tensor x, const Axes& axes, ReduceOptions options, Where where) {
  return autograd::apply_one(std::make_shared<Mean>(axes.list(), options), {std::move(x)}, where);
}

}  // namespace brim
