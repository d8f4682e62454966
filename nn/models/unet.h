// U-Net: Ronneberger, Fischer and Brox, "U-Net: Convolutional Networks for Biomedical Image
// Segmentation", MICCAI 2015; with batch norm, and padded, so that the result has the size of the
// image, as it is built today. A class for every pixel: not for the programs here, which train
// classifiers of whole images, and so not among the models of `make_model` (registry.h).
//
//   nn::UNet net({.classes = 2});
//   nn::initialize(net, /*seed=*/1);
//   Tensor loss = cross_entropy(net(images), labels);  // labels: int64 [N,H,W]
//
// `cross_entropy` takes them as they are: its classes are the last axis, and all axes before are
// rows. Pixels to leave out get the label -100.
#pragma once

#include <vector>

#include "brim/nn/layers.h"

namespace brim::nn {

struct UNetOptions {
  int64_t classes = 2;
  int64_t in = 3;         ///< channels of the images
  int64_t channels = 64;  ///< of the first level; each one below has twice as many
  int depth = 4;          ///< times that the image is halved
  /// Up by interpolation instead of transposed convolutions, and half the channels in the last
  /// level and on the way up: 17.3 instead of 31.0 million parameters.
  bool bilinear = false;
};

/// Two 3x3 convolutions, each with batch norm and ReLU; numbers as names, which count the ReLUs.
class DoubleConv final : public Module {
 public:
  DoubleConv(int64_t in, int64_t hidden, int64_t out);
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "DoubleConv"; }

 private:
  Conv2d conv0_;
  BatchNorm2d bn1_;
  Conv2d conv3_;
  BatchNorm2d bn4_;
};

/// [N,H,W,in] -> [N,H,W,classes]: scores of every pixel. H and W are at least 2^depth; where that
/// does not divide them, smaller images get a border of zeros on the way up. Names: inc; down1,
/// ...; up1, ... (the transposed convolutions) and conv1, ... (after each), from the last level on;
/// outc.
class UNet final : public Module {
 public:
  /// Throws `ValueError` for a depth below 1.
  explicit UNet(const UNetOptions& options = {});
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "UNet"; }

 private:
  struct Level {
    Module* up;
    Module* conv;
  };
  Level add_up(const UNetOptions& options, int level, int64_t in, int64_t out);

  DoubleConv inc_;
  MaxPool2d pool_{{.kernel = 2}};
  std::vector<Module*> downs_;
  std::vector<Level> ups_;
  Conv2d outc_;
};

}  // namespace brim::nn
