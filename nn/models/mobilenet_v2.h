// MobileNet V2 as torchvision builds it, names included: Sandler et al., "MobileNetV2: Inverted
// Residuals and Linear Bottlenecks", CVPR 2018. 3.5 million parameters at width 1 for 1000 classes.
// Images are halved five times, which leaves one pixel of 32x32: for such small ones see
// resnet_cifar.h.
#pragma once

#include "brim/nn/layers.h"

namespace brim::nn {

struct MobileNetV2Options {
  int64_t classes = 1000;
  double width = 1;      ///< multiplies the channels, which stay multiples of 8
  double dropout = 0.2;  ///< before the classifier
};

/// [N,H,W,3] -> [N,classes].
class MobileNetV2 final : public Module {
 public:
  /// Throws `ValueError` for a width that is not positive.
  explicit MobileNetV2(const MobileNetV2Options& options = {});
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "MobileNetV2"; }

  Sequential features;
  GlobalAvgPool avgpool;
  Sequential classifier;
};

}  // namespace brim::nn
