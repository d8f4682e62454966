#include "brim/ops/sum.h"

#include <array>

#include "brim/ops/op.h"

namespace brim {
namespace {

// Which axes go; all when none is named.
std::array<bool, Dims::kMax> reduced_axes(int rank, const std::vector<int>& axes, const char* tag) {
  std::array<bool, Dims::kMax> reduced{};
  if (axes.empty()) reduced.fill(true);
  for (int axis : axes) {
    auto at = static_cast<size_t>(normalize_axis(axis, rank, tag));
    expect<ShapeError>(!reduced[at], tag, "axis {} is named twice", axis);
    reduced[at] = true;
  }
  return reduced;
}

class Sum final : public autograd::Op {
 public:
  Sum(std::vector<int> axes, ReduceOptions options) : axes_(std::move(axes)), options_(options) {}
  const char* name() const override { return "sum"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    require_floating(name(), in[0]);
    Tensor x = contiguous(in[0]);
    Tensor y =
        empty(reduced_shape(x.shape(), axes_, name()), {.dtype = x.dtype(), .device = x.device()});
    launch(kernel::sum, {x}, {y});
    return {options_.keepdim ? y : y.view_as(squeezed_shape(x.shape(), axes_, name()))};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    const autograd::TensorInfo& x = call.input_info(0);
    Tensor dy = call.take_grad().view_as(reduced_shape(x.shape, axes_, name()));
    Tensor dx = empty(x.shape, x.options());
    launch(kernel::sum_backward, {dy}, {dx});
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

Shape reduced_shape(const Shape& x, const std::vector<int>& axes, const char* tag) {
  auto reduced = reduced_axes(x.size(), axes, tag);
  Shape shape = x;
  for (int axis = 0; axis < x.size(); ++axis)
    if (reduced[static_cast<size_t>(axis)]) shape[axis] = 1;
  return shape;
}

Shape squeezed_shape(const Shape& x, const std::vector<int>& axes, const char* tag) {
  auto reduced = reduced_axes(x.size(), axes, tag);
  Shape shape;
  for (int axis = 0; axis < x.size(); ++axis)
    if (!reduced[static_cast<size_t>(axis)]) shape.push_back(x[axis]);
  return shape;
}

Tensor sum(Tensor x, const Axes& axes, ReduceOptions options, Where where) {
  return autograd::apply_one(std::make_shared<Sum>(axes.list(), options), {std::move(x)}, where);
}

}  // namespace brim
