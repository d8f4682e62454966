// Rectified linear unit as a layer, for a `Sequential`; in a `forward` of your own, call
// `brim::relu`. After a batch norm say `{.activation = Activation::relu}` in that call instead: it
// spares a pass over memory and a buffer. There is no `inplace`: the result is a tensor of its own.
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/relu.h"

namespace brim::nn {

class ReLU final : public Module {
 public:
  Tensor forward(Tensor x) override { return brim::relu(std::move(x), where()); }
  std::string_view kind() const override { return "ReLU"; }
};

}  // namespace brim::nn
