// Squeeze-and-excitation as a layer: `brim::squeeze_excitation` (see there) with weights of its
// own. They are named as torchvision's: those of two 1x1 convolutions, "fc1" and "fc2".
#pragma once

#include "brim/nn/conv2d.h"
#include "brim/ops/squeeze_excitation.h"

namespace brim::nn {

/// y = x * hardsigmoid(fc2(relu(fc1(average of x)))), [N,H,W,C] to the same.
class SqueezeExcitation final : public Module {
 public:
  SqueezeExcitation(int64_t channels, int64_t squeezed)
      : fc1(channels, squeezed), fc2(squeezed, channels) {
    register_modules({{"fc1", fc1}, {"fc2", fc2}});
  }
  Tensor forward(Tensor x) override {
    return squeeze_excitation(std::move(x), fc1.weight, fc1.bias, fc2.weight, fc2.bias, where());
  }
  std::string_view kind() const override { return "SqueezeExcitation"; }

  Conv2d fc1, fc2;  ///< hold the weights, and are not called themselves
};

}  // namespace brim::nn
