// Dropout as a layer: active in training, nothing in evaluation; see `brim::dropout`. The masks
// follow from seed, update, module path and sample, so a `TrainStep` that runs again, or is cut
// into other micro-steps, draws the same ones; outside of a step `autograd::manual_seed` sets the
// seed. Drops elements, not whole channels as `torch.nn.Dropout2d` does.
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/dropout.h"

namespace brim::nn {

class Dropout final : public Module {
 public:
  /// `p` is the chance of each element to become 0; throws `ValueError` outside [0, 1].
  explicit Dropout(double p) : p_(p) {
    expect<ValueError>(p >= 0 && p <= 1, "dropout", "expected a chance in [0, 1], got {}", p);
  }
  Tensor forward(Tensor x) override {
    return dropout(std::move(x), {.p = p_, .training = training()}, where());
  }
  std::string_view kind() const override { return "Dropout"; }

 private:
  double p_;
};

}  // namespace brim::nn
