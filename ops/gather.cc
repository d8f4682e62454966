#include "brim/ops/gather.h"

#include "brim/ops/op.h"

namespace brim {
namespace {

class Gather final : public autograd::Op {
 public:
  explicit Gather(int axis) : axis_(axis) {}
  const char* name() const override { return "gather"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    int axis = normalize_axis(axis_, in[0].dim(), name());
    validate(in[0], in[1], axis);
    Tensor x = contiguous(in[0]), index = contiguous(in[1]);
    Tensor y = empty(index.shape(), {.dtype = x.dtype(), .device = x.device()});
    launch(kernel::gather, {x, index}, {y}, {.axis = axis});
    return {y};
  }

  autograd::Saves saves(const autograd::Needs&) const override { return {.inputs = {1}}; }

  Tensors backward(autograd::BackwardCall& call) const override {
    const autograd::TensorInfo& x = call.input_info(0);
    Tensor dx = empty(x.shape, x.options());
    launch(kernel::gather_backward, {call.take_grad(), contiguous(call.input(1))}, {dx},
           {.axis = normalize_axis(axis_, x.shape.size(), name())});
    return {dx, Tensor()};
  }

  double flops(std::span<const autograd::TensorInfo>,
               std::span<const autograd::TensorInfo>) const override {
    return 0;
  }

 private:
  void validate(const Tensor& x, const Tensor& index, int axis) const {
    require_floating(name(), x);
    expect<DtypeError>(index.dtype() == Dtype::int64, name(), "expected an int64 index, got {}",
                       index.dtype());
    expect<DeviceError>(index.device() == x.device(), name(),
                        "expected one device, got x on {} and the index on {}", x.device(),
                        index.device());
    bool fits = index.dim() == x.dim();
    for (int i = 0; fits && i < x.dim(); ++i) fits = i == axis || index.size(i) <= x.size(i);
    expect<ShapeError>(fits, name(),
                       "expected an index of at most the sizes of x {} but along axis {}, got {}",
                       x.shape(), axis, index.shape());
  }

  int axis_;
};

}  // namespace

Tensor gather(Tensor x, int axis, Tensor index, Where where) {
  return autograd::apply_one(std::make_shared<Gather>(axis), {std::move(x), std::move(index)},
                             where);
}

}  // namespace brim
