#include "brim/ops/matmul.h"

#include "brim/ops/op.h"
#include "brim/ops/product.h"
#include "brim/ops/rows.h"

namespace brim {
namespace {

/// The leading axes of a shape: all but the last two.
Shape batch_of(const Shape& shape) {
  return Shape(std::span<const int64_t>(shape.begin(), shape.end() - 2));
}

Shape join(const Shape& batch, int64_t rows, int64_t columns) {
  Shape shape = batch;
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

/// The same elements with axes of size 1 in front, so that the rank is `rank`.
Tensor with_rank(const Tensor& x, int rank) {
  Shape shape = Shape::filled(rank - x.dim(), 1);
  for (int64_t size : x.shape()) shape.push_back(size);
  return contiguous(x).view_as(shape);
}

class Matmul final : public autograd::Op {
 public:
  const char* name() const override { return "matmul"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    const Tensor &a = in[0], &b = in[1];
    validate(a, b);
    Shape batch = broadcast_shapes(batch_of(a.shape()), batch_of(b.shape()), name());
    Tensor y =
        empty(join(batch, a.size(-2), b.size(-1)), {.dtype = a.dtype(), .device = a.device()});
    if (b.dim() == 2) {
      launch(kernel::matmul, {as_rows(a), contiguous(b), Tensor()}, {as_rows(y)});
    } else {
      launch(kernel::matmul, {with_rank(a, y.dim()), with_rank(b, y.dim()), Tensor()}, {y});
    }
    return {y};
  }

  autograd::Saves saves(const autograd::Needs& needs) const override {
    return saves_of_product(needs);
  }

  /// da = dy b^T, db = a^T dy, summed over the axes that were broadcast.
  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad();
    bool one_right = call.input_info(1).shape.size() == 2;
    auto shaped = [&](const Tensor& x) { return one_right ? as_rows(x) : with_rank(x, dy.dim()); };
    Tensors grads(2);
    auto grad_for = [&](int i) {
      Tensor& grad = grads[static_cast<size_t>(i)];
      grad = empty(call.input_info(i).shape, call.input_info(i).options());
      return shaped(grad);
    };
    if (call.needs(1))
      launch(kernel::matmul, {shaped(call.take_input(0)), shaped(dy), Tensor()}, {grad_for(1)},
             {.transpose_a = true});
    if (call.needs(0))
      launch(kernel::matmul, {shaped(dy), shaped(call.input(1)), Tensor()}, {grad_for(0)},
             {.transpose_b = true});
    return grads;
  }

  /// Two per multiply and add.
  double flops(std::span<const autograd::TensorInfo> inputs,
               std::span<const autograd::TensorInfo> outputs) const override {
    return 2 * static_cast<double>(numel(outputs[0].shape)) *
           static_cast<double>(inputs[0].shape.back());
  }

 private:
  void validate(const Tensor& a, const Tensor& b) const {
    require_floating(name(), a);
    require_same_kind(name(), a, b);
    expect<ShapeError>(a.dim() >= 2 && b.dim() >= 2, name(),
                       "expected two tensors of rank 2 or more, got {} and {}", a.shape(),
                       b.shape());
    expect<ShapeError>(a.size(-1) == b.size(-2), name(),
                       "expected [...,m,k] and [...,k,n] with one k, got {} and {}", a.shape(),
                       b.shape());
  }
};

}  // namespace

Tensor matmul(Tensor a, Tensor b, Where where) {
  return autograd::apply_one(std::make_shared<Matmul>(), {std::move(a), std::move(b)}, where);
}

}  // namespace brim
