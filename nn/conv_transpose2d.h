// Transposed convolution layer: `brim::conv_transpose2d` with a weight of its own, initialised as
// that of `torch.nn.ConvTranspose2d`. Images are NHWC and the weight is [in,R,S,out/groups]:
// PyTorch's is permuted first, as for nn/conv2d.h. Makes images larger by the stride; for that
// without weights use nn/upsample.h. Say `.bias = false` where a batch norm follows.
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/conv_transpose2d.h"

namespace brim::nn {

struct ConvTransposeOptions {
  Pair kernel = 1;
  Pair stride = 1;
  Pair padding = 0;
  Pair output_padding = 0;
  Pair dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  /// By default uniform in +-1/sqrt(fan) for weight and bias with fan = R*S*out/groups. That is
  /// PyTorch's default for convolutions, which takes the weight for one of a convolution and so
  /// its fan in for that of this layer, though R*S*in/groups/stride^2 terms make an output.
  Init weight_init = nullptr, bias_init = nullptr;
};

/// [N,H,W,in] -> [N,P,Q,out]. Parameters: weight [in,R,S,out/groups], bias [out]. One
/// of as many groups as inputs has as many as its weight, whatever replaces that.
class ConvTranspose2d final : public Module {
 public:
  /// Throws `ValueError` for counts below 1, or channels that the groups do not divide.
  ConvTranspose2d(int64_t in, int64_t out, const ConvTransposeOptions& options = {});
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "ConvTranspose2d"; }

  Tensor weight, bias;

 private:
  ConvTranspose2dOptions options_;
  bool is_depthwise_;
};

}  // namespace brim::nn
