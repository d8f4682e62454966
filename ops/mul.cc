#include "brim/ops/mul.h"

#include "brim/ops/binary.h"
#include "brim/ops/broadcast.h"
#include "brim/ops/product.h"

namespace brim {
namespace {

class Mul final : public autograd::Op {
 public:
  const char* name() const override { return "mul"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const override {
    return {launch_binary(kernel::mul, in, context)};
  }

  std::vector<int> overwrites() const override { return {0, 1}; }
  bool is_one_pass() const override { return true; }
  bool is_rowwise() const override { return true; }

  autograd::Saves saves(const autograd::Needs& needs) const override {
    return saves_of_product(needs);
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad();
    Tensors grads(2);
    for (int i = 0; i < 2; ++i)
      if (call.needs(i))
        grads[static_cast<size_t>(i)] =
            unbroadcast_product(dy, call.input(1 - i), call.input_info(i).shape);
    return grads;
  }
};

}  // namespace

Tensor mul(Tensor a, Tensor b, Where where) {
  return autograd::apply_one(std::make_shared<Mul>(), {std::move(a), std::move(b)}, where);
}

}  // namespace brim
