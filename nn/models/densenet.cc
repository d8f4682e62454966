#include "brim/nn/models/densenet.h"

#include "brim/nn/models/concat_channels.h"

namespace brim::nn {
namespace {

constexpr int64_t kBottleneck = 4;  // times the growth: channels between a layer's convolutions

ConvOptions convolution(int64_t kernel, int64_t stride = 1) {
  return {.kernel = kernel,
          .stride = stride,
          .padding = (kernel - 1) / 2,
          .bias = false,
          .weight_init = init::kaiming_normal()};
}

// Norm, 1x1, norm, 3x3; the result is its input with `growth` channels more. Joined here, and not
// where the next layer begins, the parts need not stay beside what is joined.
class DenseLayer final : public Module {
 public:
  DenseLayer(int64_t in, int64_t growth, double p)
      : norm1(in),
        conv1(in, kBottleneck * growth, convolution(1)),
        norm2(kBottleneck * growth),
        conv2(kBottleneck * growth, growth, convolution(3)),
        dropout(p) {
    register_modules({{"norm1", norm1}, {"conv1", conv1}, {"norm2", norm2}, {"conv2", conv2}});
    register_module("dropout", dropout);
  }

  Tensor forward(Tensor x) override {
    Tensor y = conv1(norm1(x, {.activation = Activation::relu}));
    y = conv2(norm2(std::move(y), {.activation = Activation::relu}));
    y = dropout(std::move(y));
    return concat_channels(where(), std::move(x), std::move(y));
  }
  std::string_view kind() const override { return "DenseLayer"; }

  BatchNorm2d norm1;
  Conv2d conv1;
  BatchNorm2d norm2;
  Conv2d conv2;
  Dropout dropout;
};

class DenseBlock final : public Module {
 public:
  DenseBlock(int count, int64_t in, int64_t growth, double dropout) {
    for (int i = 0; i < count; ++i)
      register_module("denselayer" + std::to_string(i + 1),
                      std::make_unique<DenseLayer>(in + i * growth, growth, dropout));
  }
  Tensor forward(Tensor x) override {
    for (Module* layer : children()) x = (*layer)(std::move(x));
    return x;
  }
  std::string_view kind() const override { return "DenseBlock"; }
};

// Half the channels, half the image.
class Transition final : public Module {
 public:
  explicit Transition(int64_t in) : norm(in), conv(in, in / 2, convolution(1)) {
    register_modules({{"norm", norm}, {"conv", conv}, {"pool", pool}});
  }
  Tensor forward(Tensor x) override {
    return pool(conv(norm(std::move(x), {.activation = Activation::relu})));
  }
  std::string_view kind() const override { return "Transition"; }

  BatchNorm2d norm;
  Conv2d conv;
  AvgPool2d pool{{.kernel = 2}};
};

}  // namespace

DenseNetFeatures::DenseNetFeatures(const DenseNetLayout& layout, double dropout)
    : conv0_(3, layout.stem, convolution(7, 2)), norm0_(layout.stem), channels_(layout.stem) {
  register_modules({{"conv0", conv0_}, {"norm0", norm0_}, {"pool0", pool0_}});
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    if (i > 0) {
      blocks_.push_back(&register_module("transition" + std::to_string(i),
                                         std::make_unique<Transition>(channels_)));
      channels_ /= 2;
    }
    blocks_.push_back(&register_module(
        "denseblock" + std::to_string(i + 1),
        std::make_unique<DenseBlock>(layout.layers[i], channels_, layout.growth, dropout)));
    channels_ += layout.layers[i] * layout.growth;
  }
  norm5_ = &register_module("norm5", std::make_unique<BatchNorm2d>(channels_));
}

Tensor DenseNetFeatures::forward(Tensor x) {
  x = norm0_(conv0_(std::move(x)), {.activation = Activation::relu});
  x = pool0_(std::move(x));
  for (Module* block : blocks_) x = (*block)(std::move(x));
  return (*norm5_)(std::move(x), {.activation = Activation::relu});
}

DenseNet::DenseNet(const DenseNetLayout& layout, const DenseNetOptions& options)
    : features(layout, options.dropout),
      classifier(features.channels(), options.classes, {.bias_init = init::constant(0)}) {
  register_modules({{"features", features}, {"avgpool", avgpool}, {"classifier", classifier}});
}

Tensor DenseNet::forward(Tensor x) { return classifier(avgpool(features(std::move(x)))); }

}  // namespace brim::nn
