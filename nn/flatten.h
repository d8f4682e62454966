// All axes but the first become one: [N,H,W,C] -> [N,H*W*C], a view of a contiguous input. A linear
// layer after it gets its inputs in (h, w, c) order; in PyTorch it is (c, h, w), so weights from
// there are permuted first. It ties the layer to one size of image; `GlobalAvgPool` does not. For
// any other shape call `brim::reshape`.
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
