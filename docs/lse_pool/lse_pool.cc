#include "brim/docs/lse_pool/lse_pool.h"

#include "brim/autograd/op.h"

namespace example {
namespace {

using namespace brim;

// [op]
class LsePool final : public autograd::Op {
 public:
  explicit LsePool(LsePoolOptions options) : options_(options) {}
  const char* name() const override { return "lse_pool"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    const Shape& shape = in[0].shape();
    expect<DtypeError>(is_floating(in[0].dtype()), name(), "expected a floating dtype, got {}",
                       to_string(in[0].dtype()));
    expect<ShapeError>(shape.size() == 4 && shape[1] * shape[2] > 0, name(),
                       "expected images [N,H,W,C] of at least one pixel, got {}", to_string(shape));
    Tensor x = contiguous(in[0]);
    Tensor y = empty({shape[0], shape[3]}, {.dtype = x.dtype(), .device = x.device()});
    launch(kernel::lse_pool, {x}, {y}, options_);
    return {y};
  }

  autograd::Saves saves(const autograd::Needs&) const override {
    return {.inputs = {0}, .outputs = {0}};
  }

  // dx[n,h,w,c] = dy[n,c] * exp(r * (x[n,h,w,c] - y[n,c])) / (H W)
  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor x = contiguous(call.input(0)), dx = empty_like(x);
    launch(kernel::lse_pool_backward, {call.grad(), x, call.output(0)}, {dx}, options_);
    return {dx};
  }

 private:
  LsePoolOptions options_;
};
// [/op]

}  // namespace

// [apply]
brim::Tensor lse_pool(brim::Tensor x, LsePoolOptions options, brim::Where where) {
  brim::expect<brim::ValueError>(options.sharpness > 0, "lse_pool",
                                 "expected a sharpness above 0, got {}", options.sharpness);
  return brim::autograd::apply_one(std::make_shared<LsePool>(options), {std::move(x)}, where);
}
// [/apply]

}  // namespace example
