// Fully connected layer: `brim::linear` with a weight of its own, laid out and initialised as that
// of `torch.nn.Linear`. It maps the last axis only: images [N,H,W,C] want `GlobalAvgPool` or
// `Flatten` first, or each pixel is mapped by itself. For a product of two tensors use
// `brim::matmul`.
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/linear.h"

namespace brim::nn {

struct LinearOptions {
  bool bias = true;
  /// By default uniform in +-1/sqrt(in) for weight and bias, as PyTorch has it.
  Init weight_init = nullptr, bias_init = nullptr;
};

/// [...,in] -> [...,out]. Parameters: weight [out,in], bias [out].
class Linear final : public Module {
 public:
  /// Throws `ValueError` for sizes below 1.
  Linear(int64_t in, int64_t out, const LinearOptions& options = {});
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "Linear"; }

  Tensor weight, bias;
};

}  // namespace brim::nn
