#include "brim/ops/cast.h"

#include "brim/ops/op.h"

namespace brim {
namespace {

class Cast final : public autograd::Op {
 public:
  explicit Cast(Dtype dtype) : dtype_(dtype) {}
  const char* name() const override { return "cast"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    Tensor y = empty(in[0].shape(), {.dtype = dtype_, .device = in[0].device()});
    copy_into(y, in[0]);
    return {y};
  }

  bool is_one_pass() const override { return true; }
  bool is_rowwise() const override { return true; }

  Tensors backward(autograd::BackwardCall& call) const override {
    const autograd::TensorInfo& x = call.input_info(0);
    Tensor dx = empty(x.shape, x.options());
    copy_into(dx, call.take_grad_view());
    return {dx};
  }

  bool is_differentiable() const override { return is_floating(dtype_); }

 private:
  Dtype dtype_;
};

}  // namespace

Tensor cast(Tensor x, Dtype dtype, Where where) {
  if (x.dtype() == dtype) return x;
  return autograd::apply_one(std::make_shared<Cast>(dtype), {std::move(x)}, where);
}

}  // namespace brim
