#include "brim/ops/reshape.h"

#include "brim/ops/op.h"

namespace brim {
namespace {

// The shape with its -1 replaced.
Shape inferred(const Shape& x, const Shape& wanted, const char* tag) {
  int unknown = -1;
  Shape shape = wanted;
  for (int i = 0; i < wanted.size(); ++i) {
    if (wanted[i] != -1) continue;
    expect<ShapeError>(unknown < 0, tag, "expected at most one -1, got {}", wanted);
    unknown = i;
    shape[i] = 1;
  }
  for (int64_t size : shape)
    expect<ShapeError>(size >= 0, tag, "expected sizes of at least 0, got {}", wanted);
  int64_t elements = numel(x), known = numel(shape);
  if (unknown >= 0) {
    expect<ShapeError>(known > 0, tag, "a size of {} cannot be inferred beside a 0", wanted);
    shape[unknown] = elements / known;
  }
  expect<ShapeError>(numel(shape) == elements, tag, "cannot make {} of {}, which has {} elements",
                     wanted, x, elements);
  return shape;
}

class Reshape final : public autograd::Op {
 public:
  explicit Reshape(const Shape& shape) : shape_(shape) {}
  const char* name() const override { return "reshape"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    Shape shape = inferred(in[0].shape(), shape_, name());
    return {contiguous(in[0]).view_as(shape)};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    return {call.take_grad().view_as(call.input_info(0).shape)};
  }

  double flops(std::span<const autograd::TensorInfo>,
               std::span<const autograd::TensorInfo>) const override {
    return 0;
  }

 private:
  Shape shape_;
};

}  // namespace

Tensor reshape(Tensor x, const Shape& shape, Where where) {
  return autograd::apply_one(std::make_shared<Reshape>(shape), {std::move(x)}, where);
}

}  // namespace brim
