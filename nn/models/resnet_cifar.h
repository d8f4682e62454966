// ResNets for 32x32 images: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016,
// section 4.2. Shortcuts have no parameters (option A): where a block halves the image, every
// second pixel is taken and the new channels are zero.
#pragma once

#include "brim/nn/layers.h"

namespace brim::nn {

struct CifarResNetOptions {
  int64_t classes = 10;
};

/// [N,H,W,3] -> [N,classes]; 6 n + 2 layers with weights for n blocks a stage: 3 is ResNet-20.
class CifarResNet final : public Module {
 public:
  explicit CifarResNet(int blocks_per_stage, const CifarResNetOptions& options = {});
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "CifarResNet"; }

  Conv2d conv1{3, 16, {.kernel = 3, .padding = 1, .bias = false}};
  BatchNorm2d bn1{16};
  Sequential layer1, layer2, layer3;
  GlobalAvgPool avgpool;
  Linear fc;
};

}  // namespace brim::nn
