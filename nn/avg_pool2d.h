// Average over windows as a layer, `torch.nn.AvgPool2d` without `ceil_mode` and `divisor_override`;
// in a `forward` of your own, call `brim::avg_pool2d`, which has the formula. No parameters. For
// the average of whole images, before a classifier, use nn/global_avg_pool.h.
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/avg_pool2d.h"

namespace brim::nn {

class AvgPool2d final : public Module {
 public:
  explicit AvgPool2d(const AvgPool2dOptions& options) : options_(options) {}
  Tensor forward(Tensor x) override { return avg_pool2d(std::move(x), options_, where()); }
  std::string_view kind() const override { return "AvgPool2d"; }

 private:
  AvgPool2dOptions options_;
};

}  // namespace brim::nn
