// MobileNet: Howard et al., "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision
// Applications", 2017. Depthwise 3x3 and pointwise 1x1 convolutions, each with batch norm and ReLU;
// full width only, 4.2 million parameters for 1000 classes. Images of any size (224 in the paper)
// are halved five times. torchvision does not have it; mobilenet_v2.h is smaller and takes a width.
#pragma once

#include "brim/nn/layers.h"

namespace brim::nn {

struct MobileNetV1Options {
  int64_t classes = 1000;
};

/// [N,H,W,3] -> [N,classes]. Names: features.0 (convolution "0", norm "1"), features.1 to 13
/// (depthwise "0", pointwise "1", each of convolution and norm), classifier.
class MobileNetV1 final : public Module {
 public:
  explicit MobileNetV1(const MobileNetV1Options& options = {});
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "MobileNetV1"; }

  Sequential features;
  GlobalAvgPool avgpool;
  Linear classifier;
};

}  // namespace brim::nn
