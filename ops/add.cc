#include "brim/ops/add.h"

#include "brim/ops/binary.h"
#include "brim/ops/broadcast.h"

namespace brim {
namespace {

class Add final : public autograd::Op {
 public:
  const char* name() const override { return "add"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const override {
    return {launch_binary(kernel::add, in, context)};
  }

  std::vector<int> overwrites() const override { return {0, 1}; }
  bool is_one_pass() const override { return true; }
  bool is_rowwise() const override { return true; }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad();
    Tensors grads(2);
    for (int i = 0; i < 2; ++i)
      if (call.needs(i)) grads[static_cast<size_t>(i)] = unbroadcast(dy, call.input_info(i).shape);
    return grads;
  }
};

}  // namespace

Tensor add(Tensor a, Tensor b, Where where) {
  return autograd::apply_one(std::make_shared<Add>(), {std::move(a), std::move(b)}, where);
}

}  // namespace brim
