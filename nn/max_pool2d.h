// Maximum over windows as a layer, `torch.nn.MaxPool2d` without dilation and `return_indices`; in a
// `forward` of your own, call `brim::max_pool2d`, which has the formula. No parameters; for
// backward it keeps one byte per output, not the images. For averages use nn/avg_pool2d.h.
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/max_pool2d.h"

namespace brim::nn {

class MaxPool2d final : public Module {
 public:
  explicit MaxPool2d(const MaxPool2dOptions& options) : options_(options) {}
  Tensor forward(Tensor x) override { return max_pool2d(std::move(x), options_, where()); }
  std::string_view kind() const override { return "MaxPool2d"; }

 private:
  MaxPool2dOptions options_;
};

}  // namespace brim::nn
