// Images of another size as a layer, `torch.nn.Upsample`; in a `forward` of your own, call
// `brim::interpolate`, which has the formulas. No parameters: for upsampling that learns use
// nn/conv_transpose2d.h.
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/interpolate.h"

namespace brim::nn {

class Upsample final : public Module {
 public:
  explicit Upsample(const InterpolateOptions& options) : options_(options) {}
  Tensor forward(Tensor x) override { return interpolate(std::move(x), options_, where()); }
  std::string_view kind() const override { return "Upsample"; }

 private:
  InterpolateOptions options_;
};

}  // namespace brim::nn
