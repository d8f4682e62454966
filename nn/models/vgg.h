// VGG as torchvision builds it, names included, with and without batch norm: Simonyan and
// Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", ICLR 2015.
// VGG-16 has 138 million parameters for 1000 classes, 124 of them in the three linear layers, and
// four times the arithmetic of ResNet-50. Images of 32 pixels and more (224 in the paper) are
// halved five times, then averaged, or repeated, to 7x7. Without batch norm it wants learning rates
// of 0.01 and below. To be smaller and better, take resnet.h.
#pragma once

#include <array>
#include <vector>

#include "brim/nn/layers.h"

namespace brim::nn {

/// What tells the models of the family apart.
struct VggLayout {
  std::array<int, 5> convolutions;  ///< before each halving; of 64, 128, 256, 512 and 512 channels
  bool batch_norm = false;
};

inline constexpr VggLayout kVgg16{{2, 2, 3, 3, 3}}, kVgg16Bn{{2, 2, 3, 3, 3}, true};

struct VggOptions {
  int64_t classes = 1000;
  int64_t hidden = 4096;  ///< outputs of the first two linear layers; 4096 in torchvision's files
  double dropout = 0.5;   ///< after each of them
};

/// 3x3 convolutions with ReLU and the poolings between them: numbers as names, which also count the
/// ReLUs.
class VggFeatures final : public Module {
 public:
  explicit VggFeatures(const VggLayout& layout);
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "VggFeatures"; }

 private:
  struct Layer {
    Conv2d* conv = nullptr;  // or a pooling
    BatchNorm2d* norm = nullptr;
    MaxPool2d* pool = nullptr;
  };
  template <class M, class... Args>
  M* add(Args&&... args) {
    return &register_module(std::to_string(next_++),
                            std::make_unique<M>(std::forward<Args>(args)...));
  }
  void add_convolution(int64_t in, int64_t out, bool batch_norm);

  int next_ = 0;
  std::vector<Layer> layers_;
};

/// [N,H,W,3] -> [N,classes].
class Vgg final : public Module {
 public:
  explicit Vgg(const VggLayout& layout, const VggOptions& options = {});
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "Vgg"; }

  VggFeatures features;
  AdaptiveAvgPool2d avgpool{7};
  Sequential classifier;
};

}  // namespace brim::nn
