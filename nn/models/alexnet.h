// AlexNet as torchvision builds it, names included: Krizhevsky, "One weird trick for parallelizing
// convolutional neural networks", 2014, the single column of the network that won ImageNet in 2012,
// without its local response normalisation. 61.1 million parameters for 1000 classes, 58.6 of them
// in the three linear layers. Images have at least 63 pixels a side. There is no batch norm:
// learning rates of 0.01 and below. To be smaller and better, take resnet.h.
#pragma once

#include "brim/nn/layers.h"

namespace brim::nn {

struct AlexNetOptions {
  int64_t classes = 1000;
  int64_t hidden = 4096;  ///< outputs of the first two linear layers; 4096 in torchvision's files
  double dropout = 0.5;  ///< before the first two linear layers
};

/// [N,H,W,3] -> [N,classes].
class AlexNet final : public Module {
 public:
  explicit AlexNet(const AlexNetOptions& options = {});
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "AlexNet"; }

  Sequential features;
  AdaptiveAvgPool2d avgpool{6};
  Sequential classifier;
};

}  // namespace brim::nn
