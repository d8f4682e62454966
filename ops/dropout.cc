#include "brim/ops/dropout.h"

#include "brim/ops/op.h"
#include "brim/ops/reuse.h"

namespace brim {
namespace {

class Dropout final : public autograd::Op {
 public:
  explicit Dropout(double p) : p_(p) {}
  const char* name() const override { return "dropout"; }
  bool is_random() const override { return true; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const override {
    require_floating(name(), in[0]);
    Tensor x = contiguous(in[0]), y = output_over(in, context, x);
    launch(kernel::dropout, {x}, {y}, attributes(context.random));
    return {y};
  }

  std::vector<int> overwrites() const override { return {0}; }
  bool is_one_pass() const override { return true; }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad(), dx = reuse_or_empty(dy);
    launch(kernel::dropout, {dy}, {dx}, attributes(call.random()));
    return {dx};
  }

 private:
  kernel::DropoutAttributes attributes(const autograd::RandomAddress& random) const {
    return {.p = p_, .key = random.key, .first_sample = random.first_sample, .live = random.live};
  }

  double p_;
};

}  // namespace

Tensor dropout(Tensor x, DropoutOptions options, Where where) {
  expect<ValueError>(options.p >= 0 && options.p <= 1, "dropout", "expected p in [0, 1], got {}",
                     options.p);
  if (!options.training || options.p == 0) return x;
  return autograd::apply_one(std::make_shared<Dropout>(options.p), {std::move(x)}, where);
}

}  // namespace brim
