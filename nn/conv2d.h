// Convolution layer, dense, grouped or depthwise: `brim::conv2d` with a weight of its own. Images
// are NHWC and weights KRSC, so a weight of PyTorch is permuted first; the initial values are those
// of torchvision's ResNets, not of `torch.nn.Conv2d`. Padding is zeros, the same on both sides: for
// any other, use `brim::pad` before it. Say `.bias = false` where a batch norm follows.
#pragma once

#include "brim/nn/batch_norm2d.h"
#include "brim/nn/module.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/fused_conv2d.h"

namespace brim::nn {

struct ConvOptions {
  Pair kernel = 1;
  Pair stride = 1;
  Pair padding = 0;
  Pair dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  /// By default those of most of torchvision's models, and not of `torch.nn.Conv2d`, which draws
  /// both uniformly in +-1/sqrt(fan in).
  Init weight_init = init::kaiming_normal({.fan = Fan::out}), bias_init = init::constant(0);
};

/// [N,H,W,in] -> [N,P,Q,out]. Parameters: weight [out,R,S,in/groups], bias [out]. A depthwise one,
/// of as many groups as inputs, has as many as its weight, whatever replaces that.
class Conv2d final : public Module {
 public:
  /// Throws `ValueError` for counts below 1, or channels that the groups do not divide.
  Conv2d(int64_t in, int64_t out, const ConvOptions& options = {});
  Tensor forward(Tensor x) override;
  /// The result for a batch norm, in training with the statistics that it wants:
  /// `bn(conv.for_norm(x))` is `bn(conv(x))`, with one sweep over the result less. A norm in
  /// evaluation does not use them.
  Conv2dWithStatistics for_norm(Tensor x, Where where = Where::current());
  /// The same of what a norm gives, which is not written where this can read the norm's input and
  /// normalise it on the way: in training on the CPU, in float32, of depthwise convolutions,
  /// most of 1x1, and of 3x3 by Winograd's method. Elsewhere the norm is called.
  Conv2dWithStatistics for_norm(PendingNorm pending, Where where = Where::current());
  std::string_view kind() const override { return "Conv2d"; }

  /// For `fold_batch_norms` (nn/fold.h): takes a weight and a bias that have a batch norm in them.
  /// From now on `forward` hands its input on as it is, and the norm, which knows the residual and
  /// the activation, convolves it with `run_folded`.
  void fold(Tensor folded_weight, Tensor folded_bias);
  /// activation(convolution + residual). Throws `ValueError` for an x that `forward` did not hand
  /// on: something came between the convolution and its norm.
  Tensor run_folded(Tensor x, Tensor residual, Activation activation);

  Tensor weight, bias;

 private:
  Conv2dOptions options_for(const Tensor& x) const;

  Conv2dOptions options_;
  int64_t filters_per_channel_;  // of a depthwise one; 0 of others
  PackedWeight packed_;          // of a folded one
  const TensorBody* handed_on_ = nullptr;
};

}  // namespace brim::nn
