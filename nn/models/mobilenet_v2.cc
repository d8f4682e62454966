#include "brim/nn/models/mobilenet_v2.h"

#include <algorithm>

#include "brim/nn/models/conv_bn.h"
#include "brim/nn/models/make_divisible.h"

namespace brim::nn {
namespace {

struct InvertedResidualOptions {
  int64_t in, out, stride, expansion;
};

// 1x1 up (unless the expansion is 1), depthwise 3x3, 1x1 down without activation, plus the input
// where the shapes agree. The numbers as names are torchvision's.
class InvertedResidualBranch final : public Module {
 public:
  explicit InvertedResidualBranch(const InvertedResidualOptions& o)
      : InvertedResidualBranch(o, o.in * o.expansion) {}

  Tensor forward(Tensor x) override {
    Tensor shortcut;
    if (has_shortcut_) shortcut = x;
    PendingNorm hidden = expand_ != nullptr ? depthwise_.pending(expand_->pending(std::move(x)))
                                            : depthwise_.pending(std::move(x));
    return bn_(project_.for_norm(std::move(hidden)), {.residual = std::move(shortcut)});
  }
  std::string_view kind() const override { return "InvertedResidualBranch"; }

 private:
  InvertedResidualBranch(const InvertedResidualOptions& o, int64_t wide)
      : depthwise_(
            wide, wide,
            {.kernel = 3, .stride = o.stride, .groups = wide, .activation = Activation::relu6}),
        project_(wide, o.out, {.bias = false}),
        bn_(o.out),
        has_shortcut_(o.stride == 1 && o.in == o.out) {
    int next = 0;
    if (o.expansion != 1)
      expand_ = &register_module(
          std::to_string(next++),
          std::make_unique<ConvBn>(o.in, wide, ConvBnOptions{.activation = Activation::relu6}));
    register_module(std::to_string(next++), depthwise_);
    register_module(std::to_string(next++), project_);
    register_module(std::to_string(next++), bn_);
  }

  ConvBn* expand_ = nullptr;
  ConvBn depthwise_;
  Conv2d project_;
  BatchNorm2d bn_;
  bool has_shortcut_;
};

class InvertedResidual final : public Module {
 public:
  explicit InvertedResidual(const InvertedResidualOptions& options) : conv(options) {
    register_module("conv", conv);
  }
  Tensor forward(Tensor x) override { return conv(std::move(x)); }
  std::string_view kind() const override { return "InvertedResidual"; }

  InvertedResidualBranch conv;
};

struct Stage {
  int64_t expansion, out, count, stride;
};
// Table 2 of the paper.
constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

}  // namespace

MobileNetV2::MobileNetV2(const MobileNetV2Options& options) {
  expect<ValueError>(options.width > 0, "MobileNetV2", "expected a positive width, got {}",
                     options.width);
  int64_t in = make_divisible(32 * options.width);
  int64_t last = make_divisible(1280 * std::max(1.0, options.width));
  features.add<ConvBn>(3, in,
                       ConvBnOptions{.kernel = 3, .stride = 2, .activation = Activation::relu6});
  for (const Stage& stage : kStages) {
    int64_t out = make_divisible(static_cast<double>(stage.out) * options.width);
    for (int64_t i = 0; i < stage.count; ++i) {
      features.add<InvertedResidual>(
          InvertedResidualOptions{in, out, i == 0 ? stage.stride : 1, stage.expansion});
      in = out;
    }
  }
  features.add<ConvBn>(in, last, ConvBnOptions{.activation = Activation::relu6});
  classifier.add<Dropout>(options.dropout);
  classifier.add<Linear>(
      last, options.classes,
      LinearOptions{.weight_init = init::normal(0.01), .bias_init = init::constant(0)});
  register_modules({{"features", features}, {"avgpool", avgpool}, {"classifier", classifier}});
}

Tensor MobileNetV2::forward(Tensor x) { return classifier(avgpool(features(std::move(x)))); }

}  // namespace brim::nn
