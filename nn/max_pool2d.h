// Maximum over windows as a layer; see `brim::max_pool2d`.
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
