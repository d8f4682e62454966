#include "brim/ops/argmax.h"

#include "brim/ops/max.h"
#include "brim/ops/op.h"

namespace brim {
namespace {

class Argmax final : public autograd::Op {
 public:
  Argmax(std::vector<int> axes, ReduceOptions options)
      : axes_(std::move(axes)), options_(options) {}
  const char* name() const override { return "argmax"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    require_floating(name(), in[0]);
    Shape shape = reduced_shape(in[0].shape(), axes_, name());
    require_elements(in[0].shape(), shape, name());
    Tensor x = contiguous(in[0]);
    Tensor index = empty(shape, {.dtype = Dtype::int64, .device = x.device()});
    launch(kernel::max, x.dtype(), {x}, {Tensor(), index});
    return {options_.keepdim ? index : index.view_as(squeezed_shape(x.shape(), axes_, name()))};
  }

  Tensors backward(autograd::BackwardCall&) const override {
    raise<InternalError>(name(), "has no gradient");
  }
  bool is_differentiable() const override { return false; }

  double flops(std::span<const autograd::TensorInfo> in,
               std::span<const autograd::TensorInfo>) const override {
    return static_cast<double>(numel(in[0].shape));
  }

 private:
  std::vector<int> axes_;
  ReduceOptions options_;
};

}  // namespace

Tensor argmax(Tensor x, const Axes& axes, ReduceOptions options, Where where) {
  return autograd::apply_one(std::make_shared<Argmax>(axes.list(), options), {std::move(x)}, where);
}

}  // namespace brim
