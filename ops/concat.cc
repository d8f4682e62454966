#include "brim/ops/concat.h"

#include "brim/ops/op.h"

namespace brim {
namespace {

Tensor part_of(const Tensor& whole, int axis, int64_t begin, const Shape& shape) {
  Layout layout = whole.layout();
  layout.shape = shape;
  layout.offset += begin * layout.strides[axis];
  return Tensor(whole.storage(), layout);
}

class Concat final : public autograd::Op {
 public:
  explicit Concat(int axis) : axis_(axis) {}
  const char* name() const override { return "concat"; }
  // Along the rows themselves, a result has more of them than an input.
  bool is_rowwise() const override { return axis_ > 0 || axis_ == -1; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    expect<ValueError>(!in.empty(), name(), "expected at least one tensor");
    int axis = normalize_axis(axis_, in[0].dim(), name());
    Tensor y = empty(joined_shape(in, axis), {.dtype = in[0].dtype(), .device = in[0].device()});
    int64_t begin = 0;
    for (const Tensor& x : in) {
      copy_into(part_of(y, axis, begin, x.shape()), x);
      begin += x.shape()[axis];
    }
    return {y};
  }

  // Views of dy: whoever needs one in order copies it, one at a time.
  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad_view();
    int axis = normalize_axis(axis_, dy.dim(), name());
    Tensors grads;
    int64_t begin = 0;
    for (int i = 0; i < call.inputs(); ++i) {
      const Shape& shape = call.input_info(i).shape;
      grads.push_back(call.needs(i) ? part_of(dy, axis, begin, shape) : Tensor());
      begin += shape[axis];
    }
    return grads;
  }

  double flops(std::span<const autograd::TensorInfo>,
               std::span<const autograd::TensorInfo>) const override {
    return 0;
  }

 private:
  Shape joined_shape(const Tensors& in, int axis) const {
    Shape shape = in[0].shape();
    shape[axis] = 0;
    for (const Tensor& x : in) {
      require_same_kind(name(), in[0], x);
      Shape others = x.shape();
      if (others.size() > axis) others[axis] = in[0].shape()[axis];
      expect<ShapeError>(others == in[0].shape(), name(),
                         "expected shapes that differ in axis {} alone, got {} and {}", axis,
                         in[0].shape(), x.shape());
      shape[axis] += x.shape()[axis];
    }
    return shape;
  }

  int axis_;
};

}  // namespace

Tensor concat(std::vector<Tensor> tensors, int axis, Where where) {
  return autograd::apply_one(std::make_shared<Concat>(axis), std::move(tensors), where);
}

}  // namespace brim
