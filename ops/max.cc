#include "brim/ops/max.h"

#include "brim/ops/op.h"

namespace brim {
namespace {

class Max final : public autograd::Op {
 public:
  Max(std::vector<int> axes, ReduceOptions options) : axes_(std::move(axes)), options_(options) {}
  const char* name() const override { return "max"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const override {
    require_floating(name(), in[0]);
    Shape shape = reduced_shape(in[0].shape(), axes_, name());
    require_elements(in[0].shape(), shape, name());
    Tensor x = contiguous(in[0]), y = empty(shape, {.dtype = x.dtype(), .device = x.device()});
    Tensor index;
    if (context.for_backward) index = empty(shape, {.dtype = Dtype::int64, .device = x.device()});
    launch(kernel::max, {x}, {y, index});
    return {options_.keepdim ? y : y.view_as(squeezed_shape(x.shape(), axes_, name())), index};
  }

  autograd::Saves saves(const autograd::Needs&) const override { return {.outputs = {1}}; }

  Tensors backward(autograd::BackwardCall& call) const override {
    const autograd::TensorInfo& x = call.input_info(0);
    Tensor dy = call.take_grad().view_as(reduced_shape(x.shape, axes_, name()));
    Tensor dx = empty(x.shape, x.options());
    launch(kernel::max_backward, {dy, call.output(1)}, {dx});
    return {dx};
  }

  double flops(std::span<const autograd::TensorInfo> in,
               std::span<const autograd::TensorInfo>) const override {
    return static_cast<double>(numel(in[0].shape));
  }

 private:
  std::vector<int> axes_;
  ReduceOptions options_;
};

}  // namespace

void require_elements(const Shape& x, const Shape& reduced, const char* tag) {
  for (int axis = 0; axis < x.size(); ++axis)
    expect<ShapeError>(x[axis] > 0 || reduced[axis] == 0, tag,
                       "expected at least one element along axis {}, got {}", axis, x);
}

Tensor max(Tensor x, const Axes& axes, ReduceOptions options, Where where) {
  return autograd::apply_one(std::make_shared<Max>(axes.list(), options), {std::move(x)}, where);
}

}  // namespace brim
