#include "brim/nn/models/alexnet.h"

#include <cmath>

#include "brim/nn/models/flatten_channels_first.h"

namespace brim::nn {
namespace {

struct Window {
  int64_t kernel, stride, padding;
};

// PyTorch's own initial values, which torchvision leaves as they are.
void add_convolution(Sequential& features, int64_t in, int64_t out, const Window& window) {
  auto fan_in = static_cast<double>(in * window.kernel * window.kernel);
  Init torch = init::uniform(1 / std::sqrt(fan_in));
  features.add<Conv2d>(in, out,
                       ConvOptions{.kernel = window.kernel,
                                   .stride = window.stride,
                                   .padding = window.padding,
                                   .weight_init = torch,
                                   .bias_init = torch});
  features.add<ReLU>();
}

void add_pool(Sequential& features) {
  features.add<MaxPool2d>(MaxPool2dOptions{.kernel = 3, .stride = 2});
}

}  // namespace

AlexNet::AlexNet(const AlexNetOptions& options) {
  add_convolution(features, 3, 64, {11, 4, 2});
  add_pool(features);
  add_convolution(features, 64, 192, {5, 1, 2});
  add_pool(features);
  add_convolution(features, 192, 384, {3, 1, 1});
  add_convolution(features, 384, 256, {3, 1, 1});
  add_convolution(features, 256, 256, {3, 1, 1});
  add_pool(features);
  classifier.add<Dropout>(options.dropout);
  classifier.add<Linear>(256 * 6 * 6, options.hidden);
  classifier.add<ReLU>();
  classifier.add<Dropout>(options.dropout);
  classifier.add<Linear>(options.hidden, options.hidden);
  classifier.add<ReLU>();
  classifier.add<Linear>(options.hidden, options.classes);
  register_modules({{"features", features}, {"avgpool", avgpool}, {"classifier", classifier}});
}

Tensor AlexNet::forward(Tensor x) {
  x = avgpool(features(std::move(x)));
  return classifier(flatten_channels_first(std::move(x)));
}

}  // namespace brim::nn
