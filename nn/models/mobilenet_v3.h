// MobileNet V3 as torchvision builds it, names included: Howard et al., "Searching for
// MobileNetV3", ICCV 2019. For 1000 classes at width 1: 2.5 million parameters (small), 5.5 million
// (large). Images are halved five times, which leaves one pixel of 32x32: for such small ones see
// resnet_cifar.h. Its running statistics move slowly (momentum 0.01): in trainings of a few hundred
// steps, evaluation sees old ones.
#pragma once

#include <cstdint>
#include <span>

#include "brim/nn/layers.h"

namespace brim::nn {

struct MobileNetV3Options {
  int64_t classes = 1000;
  double width = 1;      ///< multiplies the channels, which stay multiples of 8
  double dropout = 0.2;  ///< before the last layer
};

/// What tells the models of the family apart: tables 1 and 2 of the paper.
struct MobileNetV3Layout {
  struct Block {
    int64_t kernel, expanded, out;
    bool squeezes;
    Activation activation;
    int64_t stride;
  };
  std::span<const Block> blocks;
  int64_t last;  ///< channels between the classifier's two layers
};

extern const MobileNetV3Layout kMobileNetV3Small, kMobileNetV3Large;

/// [N,H,W,3] -> [N,classes].
class MobileNetV3 final : public Module {
 public:
  /// Throws `ValueError` for a width that is not positive.
  explicit MobileNetV3(const MobileNetV3Layout& layout, const MobileNetV3Options& options = {});
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "MobileNetV3"; }

  Sequential features;
  GlobalAvgPool avgpool;
  Sequential classifier;
};

}  // namespace brim::nn
