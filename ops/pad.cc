#include "brim/ops/pad.h"

#include "brim/ops/op.h"

namespace brim {
namespace {

class Pad final : public autograd::Op {
 public:
  Pad(const std::vector<AxisPadding>& padding, PadOptions options)
      : padding_(padding), options_(options) {}
  const char* name() const override { return "pad"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    Shape shape = padded(in[0].shape());
    Tensor x = contiguous(in[0]);
    Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device()});
    kernel::PadAttributes attributes{.value = options_.value};
    for (size_t axis = 0; axis < padding_.size(); ++axis)
      attributes.before[axis] = padding_[axis].before;
    launch(kernel::pad, {x}, {y}, attributes);
    return {y};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad_view();
    Layout layout = dy.layout();
    layout.shape = call.input_info(0).shape;
    for (int axis = 0; axis < dy.dim(); ++axis)
      layout.offset += padding_[static_cast<size_t>(axis)].before * layout.strides[axis];
    return {Tensor(dy.storage(), layout)};
  }

  double flops(std::span<const autograd::TensorInfo>,
               std::span<const autograd::TensorInfo>) const override {
    return 0;
  }

 private:
  Shape padded(const Shape& x) const {
    expect<ShapeError>(static_cast<int>(padding_.size()) == x.size(), name(),
                       "expected padding for the {} axes of {}, got {} entries", x.size(), x,
                       padding_.size());
    Shape shape = x;
    for (int axis = 0; axis < x.size(); ++axis) {
      auto [before, after] = padding_[static_cast<size_t>(axis)];
      expect<ValueError>(before >= 0 && after >= 0, name(),
                         "expected padding of at least 0, got {} and {} for axis {}", before, after,
                         axis);
      bool fits = !__builtin_add_overflow(shape[axis], before, &shape[axis]) &&
                  !__builtin_add_overflow(shape[axis], after, &shape[axis]);
      expect<ShapeError>(fits, name(), "padding of {} and {} for axis {} is too large", before,
                         after, axis);
    }
    return shape;
  }

  std::vector<AxisPadding> padding_;
  PadOptions options_;
};

}  // namespace

Tensor pad(Tensor x, const std::vector<AxisPadding>& padding, PadOptions options, Where where) {
  return autograd::apply_one(std::make_shared<Pad>(padding, options), {std::move(x)}, where);
}

}  // namespace brim
