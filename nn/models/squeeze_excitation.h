// Squeeze-and-excitation: every channel of an image is scaled by a number in [0, 1] that follows
// from the averages of all channels. Hu, Shen and Sun, "Squeeze-and-Excitation Networks", CVPR
// 2018; with the hard sigmoid of MobileNet V3. Named as torchvision's: two 1x1 convolutions, "fc1"
// and "fc2".
#pragma once

#include "brim/nn/conv2d.h"
#include "brim/ops/global_avg_pool.h"
#include "brim/ops/hardsigmoid.h"
#include "brim/ops/mul.h"
#include "brim/ops/relu.h"
#include "brim/ops/reshape.h"

namespace brim::nn {

/// y = x * hardsigmoid(fc2(relu(fc1(average of x)))), [N,H,W,C] to the same.
class SqueezeExcitation final : public Module {
 public:
  SqueezeExcitation(int64_t channels, int64_t squeezed)
      : fc1(channels, squeezed), fc2(squeezed, channels) {
    register_modules({{"fc1", fc1}, {"fc2", fc2}});
  }
  Tensor forward(Tensor x) override {
    Shape shape = x.shape();
    Tensor scale = reshape(global_avg_pool(x), {shape[0], 1, 1, shape.back()});
    scale = hardsigmoid(fc2(relu(fc1(std::move(scale)))));
    return mul(std::move(x), std::move(scale));
  }
  std::string_view kind() const override { return "SqueezeExcitation"; }

  Conv2d fc1, fc2;
};

}  // namespace brim::nn
