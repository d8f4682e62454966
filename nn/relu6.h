// Rectified linear unit with a ceiling of 6 as a layer; see `brim::relu6`.
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
