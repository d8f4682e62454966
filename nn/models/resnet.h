// ResNets as torchvision builds them, names included: He et al., "Deep Residual Learning for Image
// Recognition", CVPR 2016, with the stride of a bottleneck in its 3x3 convolution ("v1.5");
// Xie et al., "Aggregated Residual Transformations", CVPR 2017 (resnext); Zagoruyko and Komodakis,
// "Wide Residual Networks", BMVC 2016. For 32x32 images see resnet_cifar.h.
//
// Every addition and ReLU is part of the batch norm before it.
#pragma once

#include <array>

#include "brim/nn/layers.h"

namespace brim::nn {

struct ResNetOptions {
  int64_t classes = 1000;
  /// Residual branches start at 0, so that each block starts as its shortcut.
  bool zero_init_residual = false;
};

/// What tells the models of the family apart.
struct ResNetLayout {
  std::array<int, 4> blocks;
  bool bottleneck = false;
  int64_t groups = 1, width_per_group = 64;
};

inline constexpr ResNetLayout kResNet18{{2, 2, 2, 2}}, kResNet34{{3, 4, 6, 3}},
    kResNet50{{3, 4, 6, 3}, true}, kResNet101{{3, 4, 23, 3}, true}, kResNet152{{3, 8, 36, 3}, true},
    kResNeXt50_32x4d{{3, 4, 6, 3}, true, 32, 4}, kResNeXt101_32x8d{{3, 4, 23, 3}, true, 32, 8},
    kResNeXt101_64x4d{{3, 4, 23, 3}, true, 64, 4}, kWideResNet50_2{{3, 4, 6, 3}, true, 1, 128},
    kWideResNet101_2{{3, 4, 23, 3}, true, 1, 128};

/// [N,H,W,3] -> [N,classes].
class ResNet final : public Module {
 public:
  explicit ResNet(const ResNetLayout& layout, const ResNetOptions& options = {});
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "ResNet"; }

  Conv2d conv1{3, 64, {.kernel = 7, .stride = 2, .padding = 3, .bias = false}};
  BatchNorm2d bn1{64};
  MaxPool2d maxpool{{.kernel = 3, .stride = 2, .padding = 1}};
  Sequential layer1, layer2, layer3, layer4;
  GlobalAvgPool avgpool;
  Linear fc;
};

}  // namespace brim::nn
