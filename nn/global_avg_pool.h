// Average over whole images as a layer: [N,H,W,C] -> [N,C]; see `brim::global_avg_pool`.
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/global_avg_pool.h"

namespace brim::nn {

class GlobalAvgPool final : public Module {
 public:
  Tensor forward(Tensor x) override { return brim::global_avg_pool(std::move(x), where()); }
  std::string_view kind() const override { return "GlobalAvgPool"; }
};

}  // namespace brim::nn
