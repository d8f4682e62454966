// Rectified linear unit as a layer, for a `Sequential`; see `brim::relu`.
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
