#include "brim/ops/slice.h"

#include <algorithm>

#include "brim/ops/op.h"

namespace brim {
namespace {

class Slice final : public autograd::Op {
 public:
  Slice(int axis, const SliceOptions& options) : axis_(axis), options_(options) {}
  const char* name() const override { return "slice"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    expect<ValueError>(options_.step >= 1, name(), "expected a step of at least 1, got {}",
                       options_.step);
    return {view_of(in[0])};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    if (Tensor sum = call.take_sum(0); sum.defined()) {
      accumulate_into(view_of(sum), call.take_grad());
      return {sum};
    }
    const autograd::TensorInfo& x = call.input_info(0);
    Tensor dx = zeros(x.shape, x.options());
    copy_into(view_of(dx), call.take_grad());
    return {dx};
  }

  double flops(std::span<const autograd::TensorInfo>,
               std::span<const autograd::TensorInfo>) const override {
    return 0;
  }

 private:
  Tensor view_of(const Tensor& x) const {
    int axis = normalize_axis(axis_, x.dim(), name());
    int64_t size = x.shape()[axis];
    auto position = [size](int64_t i) {
      return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size);
    };
    int64_t begin = position(options_.begin), end = std::max(begin, position(options_.end));
    Layout layout = x.layout();
    // Written so that no step overflows.
    layout.shape[axis] = end == begin ? 0 : (end - begin - 1) / options_.step + 1;
    layout.offset += begin * layout.strides[axis];
    if (layout.shape[axis] > 1) layout.strides[axis] *= options_.step;
    return Tensor(x.storage(), layout);
  }

  int axis_;
  SliceOptions options_;
};

}  // namespace

Tensor slice(Tensor x, int axis, SliceOptions options, Where where) {
  return autograd::apply_one(std::make_shared<Slice>(axis, options), {std::move(x)}, where);
}

}  // namespace brim
