// Average over windows as a layer; see `brim::avg_pool2d`.
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
