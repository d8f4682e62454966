// DenseNets as torchvision builds them, names included: Huang et al., "Densely Connected
// Convolutional Networks", CVPR 2017. Every layer sees the outputs of all layers of its block.
// DenseNet-121 has 8.0 million parameters for 1000 classes, but trains with half again the
// activations of ResNet-50: what each layer gets is a new concatenation, saved for backward. Images
// are halved five times, which leaves one pixel of 32x32: for such small ones see resnet_cifar.h.
//
// Every ReLU is part of the batch norm before it.
#pragma once

#include <array>
#include <vector>

#include "brim/nn/layers.h"

namespace brim::nn {

/// What tells the models of the family apart.
struct DenseNetLayout {
  std::array<int, 4> layers;  ///< of each block
  int64_t growth = 32;        ///< channels that each layer adds
  int64_t stem = 64;          ///< channels of the first convolution
};

inline constexpr DenseNetLayout kDenseNet121{{6, 12, 24, 16}};

struct DenseNetOptions {
  int64_t classes = 1000;
  double dropout = 0;  ///< after each layer; the paper has 0.2 where images are not augmented
};

class DenseNetFeatures final : public Module {
 public:
  DenseNetFeatures(const DenseNetLayout& layout, double dropout);
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "DenseNetFeatures"; }
  /// Of the result.
  int64_t channels() const { return channels_; }

 private:
  Conv2d conv0_;
  BatchNorm2d norm0_;
  MaxPool2d pool0_{{.kernel = 3, .stride = 2, .padding = 1}};
  std::vector<Module*> blocks_;  // and the transitions between them
  BatchNorm2d* norm5_ = nullptr;
  int64_t channels_;
};

/// [N,H,W,3] -> [N,classes].
class DenseNet final : public Module {
 public:
  explicit DenseNet(const DenseNetLayout& layout, const DenseNetOptions& options = {});
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "DenseNet"; }

  DenseNetFeatures features;
  GlobalAvgPool avgpool;
  Linear classifier;
};

}  // namespace brim::nn
