// All axes but the first become one: [N,H,W,C] -> [N,H*W*C].
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/reshape.h"

namespace brim::nn {

class Flatten final : public Module {
 public:
  Tensor forward(Tensor x) override {
    expect<ShapeError>(x.dim() >= 1, "flatten", "expected at least one axis, got a scalar");
    int64_t samples = x.size(0), each = 1;  // not -1, which an empty batch would leave open
    for (int axis = 1; axis < x.dim(); ++axis) each *= x.size(axis);
    return reshape(std::move(x), {samples, each}, where());
  }
  std::string_view kind() const override { return "Flatten"; }
};

}  // namespace brim::nn
