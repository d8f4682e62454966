#include "brim/ops/sub.h"

#include "brim/ops/binary.h"
#include "brim/ops/broadcast.h"
#include "brim/ops/reuse.h"

namespace brim {
namespace {

class Sub final : public autograd::Op {
 public:
  const char* name() const override { return "sub"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const override {
    return {launch_binary(kernel::sub, in, context)};
  }

  std::vector<int> overwrites() const override { return {0, 1}; }
  bool is_one_pass() const override { return true; }
  bool is_rowwise() const override { return true; }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad();
    Tensors grads(2);
    if (call.needs(0)) grads[0] = unbroadcast(dy, call.input_info(0).shape);
    if (call.needs(1)) {
      Tensor sum = unbroadcast(dy, call.input_info(1).shape);
      dy = Tensor();  // so that it may be overwritten, unless it is a's gradient too
      grads[1] = reuse_or_empty(sum);
      launch(kernel::neg, {sum}, {grads[1]});
    }
    return grads;
  }
};

}  // namespace

Tensor sub(Tensor a, Tensor b, Where where) {
  return autograd::apply_one(std::make_shared<Sub>(), {std::move(a), std::move(b)}, where);
}

}  // namespace brim
