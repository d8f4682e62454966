// Average over whole images as a layer: [N,H,W,C] -> [N,C], the `AdaptiveAvgPool2d(1)` and
// `flatten` of a torchvision model in one. Takes images of any size; its result is what a `Linear`
// wants. In a `forward` of your own, call `brim::global_avg_pool`; for windows use nn/avg_pool2d.h.
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
