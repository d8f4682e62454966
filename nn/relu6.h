// Rectified linear unit with a ceiling of 6 as a layer, for a `Sequential`; in a `forward` of your
// own, call `brim::relu6`. After a batch norm say `{.activation = Activation::relu6}` in that call
// instead, as MobileNet V2 does. No gradient passes above 6: without a reason for the ceiling use
// nn/relu.h.
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/relu6.h"

namespace brim::nn {

class ReLU6 final : public Module {
 public:
  Tensor forward(Tensor x) override { return brim::relu6(std::move(x), where()); }
  std::string_view kind() const override { return "ReLU6"; }
};

}  // namespace brim::nn
