#include "brim/nn/models/mobilenet_v3.h"

#include "brim/nn/models/conv_bn.h"
#include "brim/nn/models/make_divisible.h"
#include "brim/nn/models/squeeze_excitation.h"

namespace brim::nn {
namespace {

constexpr Activation kRelu = Activation::relu, kHardswish = Activation::hardswish;
constexpr int64_t kStem = 16;      // channels
constexpr int64_t kExpansion = 6;  // of the last convolution

int64_t scaled(int64_t channels, double width) {
  return make_divisible(static_cast<double>(channels) * width);
}

constexpr MobileNetV3Layout::Block kSmall[] = {
    {3, 16, 16, true, kRelu, 2},       {3, 72, 24, false, kRelu, 2},
    {3, 88, 24, false, kRelu, 1},      {5, 96, 40, true, kHardswish, 2},
    {5, 240, 40, true, kHardswish, 1}, {5, 240, 40, true, kHardswish, 1},
    {5, 120, 48, true, kHardswish, 1}, {5, 144, 48, true, kHardswish, 1},
    {5, 288, 96, true, kHardswish, 2}, {5, 576, 96, true, kHardswish, 1},
    {5, 576, 96, true, kHardswish, 1}};
constexpr MobileNetV3Layout::Block kLarge[] = {
    {3, 16, 16, false, kRelu, 1},       {3, 64, 24, false, kRelu, 2},
    {3, 72, 24, false, kRelu, 1},       {5, 72, 40, true, kRelu, 2},
    {5, 120, 40, true, kRelu, 1},       {5, 120, 40, true, kRelu, 1},
    {3, 240, 80, false, kHardswish, 2}, {3, 200, 80, false, kHardswish, 1},
    {3, 184, 80, false, kHardswish, 1}, {3, 184, 80, false, kHardswish, 1},
    {3, 480, 112, true, kHardswish, 1}, {3, 672, 112, true, kHardswish, 1},
    {5, 672, 160, true, kHardswish, 2}, {5, 960, 160, true, kHardswish, 1},
    {5, 960, 160, true, kHardswish, 1}};

// With the norm that all of the family's have.
struct V3ConvOptions {
  int64_t kernel = 1, stride = 1, groups = 1;
  Activation activation = Activation::none;
};
ConvBnOptions v3_conv(const V3ConvOptions& o) {
  return {.kernel = o.kernel,
          .stride = o.stride,
          .groups = o.groups,
          .activation = o.activation,
          .norm = {.epsilon = 0.001, .momentum = 0.01}};
}

struct InvertedResidualOptions {
  int64_t in, expanded, out, kernel, stride;
  bool squeezes;
  Activation activation;
};

// 1x1 up (where the block is wider than its input), depthwise, squeeze-and-excitation, 1x1 down
// without activation, plus the input where the shapes agree. The numbers as names are
// torchvision's.
class InvertedResidualBranch final : public Module {
 public:
  explicit InvertedResidualBranch(const InvertedResidualOptions& o)
      : depthwise_(o.expanded, o.expanded,
                   v3_conv({.kernel = o.kernel,
                            .stride = o.stride,
                            .groups = o.expanded,
                            .activation = o.activation})),
        project_(o.expanded, o.out, v3_conv({})),
        has_shortcut_(o.stride == 1 && o.in == o.out) {
    int next = 0;
    if (o.expanded != o.in)
      expand_ = &register_module(
          std::to_string(next++),
          std::make_unique<ConvBn>(o.in, o.expanded, v3_conv({.activation = o.activation})));
    register_module(std::to_string(next++), depthwise_);
    if (o.squeezes)
      squeeze_ =
          &register_module(std::to_string(next++),
                           std::make_unique<SqueezeExcitation>(
                               o.expanded, make_divisible(static_cast<double>(o.expanded / 4))));
    register_module(std::to_string(next++), project_);
  }

  Tensor forward(Tensor x) override {
    Tensor shortcut;
    if (has_shortcut_) shortcut = x;
    PendingNorm hidden = expand_ != nullptr ? depthwise_.pending(expand_->pending(std::move(x)))
                                            : depthwise_.pending(std::move(x));
    if (squeeze_ == nullptr) return project_(std::move(hidden), std::move(shortcut));
    return project_((*squeeze_)(std::move(hidden).apply()), std::move(shortcut));
  }
  std::string_view kind() const override { return "InvertedResidualBranch"; }

 private:
  ConvBn* expand_ = nullptr;
  ConvBn depthwise_;
  SqueezeExcitation* squeeze_ = nullptr;
  ConvBn project_;
  bool has_shortcut_;
};

class InvertedResidual final : public Module {
 public:
  explicit InvertedResidual(const InvertedResidualOptions& options) : block(options) {
    register_module("block", block);
  }
  Tensor forward(Tensor x) override { return block(std::move(x)); }
  std::string_view kind() const override { return "InvertedResidual"; }

  InvertedResidualBranch block;
};

}  // namespace

constinit const MobileNetV3Layout kMobileNetV3Small{kSmall, 1024}, kMobileNetV3Large{kLarge, 1280};

MobileNetV3::MobileNetV3(const MobileNetV3Layout& layout, const MobileNetV3Options& options) {
  expect<ValueError>(options.width > 0, "MobileNetV3", "expected a positive width, got {}",
                     options.width);
  int64_t in = scaled(kStem, options.width);
  features.add<ConvBn>(3, in, v3_conv({.kernel = 3, .stride = 2, .activation = kHardswish}));
  for (const MobileNetV3Layout::Block& block : layout.blocks) {
    InvertedResidualOptions next{.in = in,
                                 .expanded = scaled(block.expanded, options.width),
                                 .out = scaled(block.out, options.width),
                                 .kernel = block.kernel,
                                 .stride = block.stride,
                                 .squeezes = block.squeezes,
                                 .activation = block.activation};
    features.add<InvertedResidual>(next);
    in = next.out;
  }
  features.add<ConvBn>(in, kExpansion * in, v3_conv({.activation = kHardswish}));
  LinearOptions start{.weight_init = init::normal(0.01), .bias_init = init::constant(0)};
  int64_t hidden = scaled(layout.last, options.width);
  classifier.add<Linear>(kExpansion * in, hidden, start);
  classifier.add<Hardswish>();
  classifier.add<Dropout>(options.dropout);
  classifier.add<Linear>(hidden, options.classes, start);
  register_modules({{"features", features}, {"avgpool", avgpool}, {"classifier", classifier}});
}

Tensor MobileNetV3::forward(Tensor x) { return classifier(avgpool(features(std::move(x)))); }

}  // namespace brim::nn
