// Average to images of a given size as a layer: [N,H,W,C] -> [N,P,Q,C] for any H and W,
// `torch.nn.AdaptiveAvgPool2d`. In a `forward` of your own, call `brim::adaptive_avg_pool2d`. No
// parameters. Before a classifier nn/global_avg_pool.h gives [N,C]; for windows of a given size use
// nn/avg_pool2d.h.
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/adaptive_avg_pool2d.h"

namespace brim::nn {

class AdaptiveAvgPool2d final : public Module {
 public:
  explicit AdaptiveAvgPool2d(Pair output) : output_(output) {}
  Tensor forward(Tensor x) override { return adaptive_avg_pool2d(std::move(x), output_, where()); }
  std::string_view kind() const override { return "AdaptiveAvgPool2d"; }

 private:
  Pair output_;
};

}  // namespace brim::nn
