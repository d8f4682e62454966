#include "brim/nn/models/vgg.h"

#include <algorithm>

#include "brim/nn/models/flatten_channels_first.h"
#include "brim/ops/relu.h"

namespace brim::nn {

VggFeatures::VggFeatures(const VggLayout& layout) {
  int64_t in = 3, out = 64;
  for (int count : layout.convolutions) {
    for (int i = 0; i < count; ++i) {
      add_convolution(in, out, layout.batch_norm);
      in = out;
    }
    layers_.push_back({.pool = add<MaxPool2d>(MaxPool2dOptions{.kernel = 2})});
    out = std::min<int64_t>(2 * out, 512);
  }
}

void VggFeatures::add_convolution(int64_t in, int64_t out, bool batch_norm) {
  // torchvision's has a bias also where the batch norm takes it out again.
  Layer layer{.conv = add<Conv2d>(in, out, ConvOptions{.kernel = 3, .padding = 1})};
  if (batch_norm) layer.norm = add<BatchNorm2d>(out);
  layers_.push_back(layer);
  ++next_;  // the ReLU
}

Tensor VggFeatures::forward(Tensor x) {
  PendingNorm hidden(std::move(x));
  for (const Layer& layer : layers_)
    if (layer.pool != nullptr)
      hidden = PendingNorm((*layer.pool)(std::move(hidden).apply()));
    else if (layer.norm != nullptr)
      hidden = layer.norm->pending(layer.conv->for_norm(std::move(hidden)), Activation::relu);
    else
      hidden = PendingNorm(relu((*layer.conv)(std::move(hidden).apply())));
  return std::move(hidden).apply();
}

Vgg::Vgg(const VggLayout& layout, const VggOptions& options) : features(layout) {
  LinearOptions start{.weight_init = init::normal(0.01), .bias_init = init::constant(0)};
  classifier.add<Linear>(512 * 7 * 7, options.hidden, start);
  classifier.add<ReLU>();
  classifier.add<Dropout>(options.dropout);
  classifier.add<Linear>(options.hidden, options.hidden, start);
  classifier.add<ReLU>();
  classifier.add<Dropout>(options.dropout);
  classifier.add<Linear>(options.hidden, options.classes, start);
  register_modules({{"features", features}, {"avgpool", avgpool}, {"classifier", classifier}});
}

Tensor Vgg::forward(Tensor x) {
  x = avgpool(features(std::move(x)));
  return classifier(flatten_channels_first(std::move(x)));
}

}  // namespace brim::nn
