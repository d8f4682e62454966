// ShuffleNet V2 as torchvision builds it, names included: Ma et al., "ShuffleNet V2: Practical
// Guidelines for Efficient CNN Architecture Design", ECCV 2018. 2.3 million parameters at width 1
// for 1000 classes, and a quarter of the arithmetic of MobileNet V1. Images are halved five times,
// which leaves one pixel of 32x32: for such small ones see resnet_cifar.h.
//
// Joining two branches and shuffling their channels is one copy.
#pragma once

#include <array>

#include "brim/nn/layers.h"
#include "brim/nn/models/conv_bn.h"

namespace brim::nn {

/// What tells the models of the family apart: table 5 of the paper.
struct ShuffleNetV2Layout {
  std::array<int, 3> units;         ///< of each stage
  std::array<int64_t, 5> channels;  ///< of the first convolution, the stages and the last one
};

inline constexpr ShuffleNetV2Layout kShuffleNetV2_x1_0{{4, 8, 4}, {24, 116, 232, 464, 1024}};

struct ShuffleNetV2Options {
  int64_t classes = 1000;
};

/// [N,H,W,3] -> [N,classes].
class ShuffleNetV2 final : public Module {
 public:
  /// Throws `ValueError` for stages of an odd number of channels.
  explicit ShuffleNetV2(const ShuffleNetV2Layout& layout, const ShuffleNetV2Options& options = {});
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "ShuffleNetV2"; }

  ConvBn conv1;
  MaxPool2d maxpool{{.kernel = 3, .stride = 2, .padding = 1}};
  Sequential stage2, stage3, stage4;
  ConvBn conv5;
  GlobalAvgPool avgpool;
  Linear fc;
};

}  // namespace brim::nn
