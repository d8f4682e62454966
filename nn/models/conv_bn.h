// Convolution without bias, batch norm and activation: what mobile models are made of. Named as
// torchvision's Conv2dNormActivation: the convolution is "0", the norm "1". It has no place for a
// residual: a block with one holds a `Conv2d` and a `BatchNorm2d` and gives the shortcut to the
// norm, as resnet.cc does.
#pragma once

#include "brim/nn/batch_norm2d.h"
#include "brim/nn/conv2d.h"

namespace brim::nn {

struct ConvBnOptions {
  Pair kernel = 1;  ///< odd; padded so that stride 1 keeps the image's size
  Pair stride = 1;
  int64_t groups = 1;
  Activation activation = Activation::relu;
};

class ConvBn final : public Module {
 public:
  ConvBn(int64_t in, int64_t out, const ConvBnOptions& options)
      : conv(in, out,
             {.kernel = options.kernel,
              .stride = options.stride,
              .padding = {(options.kernel.h - 1) / 2, (options.kernel.w - 1) / 2},
              .groups = options.groups,
              .bias = false}),
        bn(out),
        activation_(options.activation) {
    register_modules({{"0", conv}, {"1", bn}});
  }
  Tensor forward(Tensor x) override {
    return bn(conv(std::move(x), where()), {.activation = activation_}, where());
  }
  std::string_view kind() const override { return "ConvBn"; }

  Conv2d conv;
  BatchNorm2d bn;

 private:
  Activation activation_;
};

}  // namespace brim::nn
