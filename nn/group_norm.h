// Group norm as a layer, `torch.nn.GroupNorm`: `brim::group_norm` with a weight and a bias of its
// own. For batches of a few images, whose statistics are too poor for nn/batch_norm2d.h. No
// residual and no activation are fused.
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/group_norm.h"

namespace brim::nn {

struct GroupNormOptions {
  double epsilon = 1e-5;
  bool affine = true;  ///< has weight and bias per channel
};

/// [N,...,C] -> [N,...,C]. Parameters: weight, bias [C].
class GroupNorm final : public Module {
 public:
  /// Throws `ValueError` for counts below 1, or channels that the groups do not divide.
  GroupNorm(int64_t groups, int64_t channels, const GroupNormOptions& options = {});
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "GroupNorm"; }

  Tensor weight, bias;

 private:
  int64_t groups_;
  GroupNormOptions options_;
};

}  // namespace brim::nn
