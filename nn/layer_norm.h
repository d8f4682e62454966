// Layer norm as a layer, `torch.nn.LayerNorm`: `brim::layer_norm` with a weight and a bias of its
// own. Each sample is normalised by itself over its last axes, in training and evaluation alike.
// For images after convolutions use nn/batch_norm2d.h or nn/group_norm.h.
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/layer_norm.h"

namespace brim::nn {

struct LayerNormOptions {
  double epsilon = 1e-5;
  bool affine = true;  ///< has weight and bias, of the normalized shape
};

/// [..., normalized shape] -> the same. Parameters: weight, bias.
class LayerNorm final : public Module {
 public:
  /// Throws `ValueError` unless there are sizes, all of at least 1.
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options = {});
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "LayerNorm"; }

  Tensor weight, bias;

 private:
  Shape normalized_shape_;
  LayerNormOptions options_;
};

}  // namespace brim::nn
