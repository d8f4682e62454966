#include "brim/nn/models/resnet.h"

#include <optional>

#include "brim/nn/models/conv_bn.h"

namespace brim::nn {
namespace {

struct BlockOptions {
  int64_t in, planes, stride, groups, width_per_group;
  double last_weight;  // of the branch's last batch norm
};

ConvBnOptions shortcut(int64_t stride) {
  return {.stride = stride, .activation = Activation::none};
}

// Two 3x3 convolutions; planes channels out.
class BasicBlock final : public Module {
 public:
  static constexpr int64_t kExpansion = 1;

  explicit BasicBlock(const BlockOptions& o)
      : conv1(o.in, o.planes, {.kernel = 3, .stride = o.stride, .padding = 1, .bias = false}),
        bn1(o.planes),
        conv2(o.planes, o.planes, {.kernel = 3, .padding = 1, .bias = false}),
        bn2(o.planes, {.weight = o.last_weight}) {
    register_modules({{"conv1", conv1}, {"bn1", bn1}, {"conv2", conv2}, {"bn2", bn2}});
    if (o.stride == 1 && o.in == o.planes) return;
    register_module("downsample", downsample.emplace(o.in, o.planes, shortcut(o.stride)));
  }

  Tensor forward(Tensor x) override {
    PendingNorm y = bn1.pending(conv1.for_norm(x), Activation::relu);
    Conv2dWithStatistics z = conv2.for_norm(std::move(y));
    if (downsample) x = (*downsample)(std::move(x));
    return bn2(std::move(z), {.residual = std::move(x), .activation = Activation::relu});
  }
  std::string_view kind() const override { return "BasicBlock"; }

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  std::optional<ConvBn> downsample;
};

// 1x1, 3x3 (with the stride and the groups), 1x1; 4 planes channels out.
class Bottleneck final : public Module {
 public:
  static constexpr int64_t kExpansion = 4;

  explicit Bottleneck(const BlockOptions& o) : Bottleneck(o, width_of(o), o.planes * kExpansion) {}

  Tensor forward(Tensor x) override {
    PendingNorm y = bn1.pending(conv1.for_norm(x), Activation::relu);
    y = bn2.pending(conv2.for_norm(std::move(y)), Activation::relu);
    Conv2dWithStatistics z = conv3.for_norm(std::move(y));
    if (downsample) x = (*downsample)(std::move(x));
    return bn3(std::move(z), {.residual = std::move(x), .activation = Activation::relu});
  }
  std::string_view kind() const override { return "Bottleneck"; }

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  Conv2d conv3;
  BatchNorm2d bn3;
  std::optional<ConvBn> downsample;

 private:
  static int64_t width_of(const BlockOptions& o) {
    return o.planes * o.width_per_group / 64 * o.groups;
  }
  Bottleneck(const BlockOptions& o, int64_t width, int64_t out)
      : conv1(o.in, width, {.bias = false}),
        bn1(width),
        conv2(width, width,
              {.kernel = 3, .stride = o.stride, .padding = 1, .groups = o.groups, .bias = false}),
        bn2(width),
        conv3(width, out, {.bias = false}),
        bn3(out, {.weight = o.last_weight}) {
    register_modules({{"conv1", conv1}, {"bn1", bn1}, {"conv2", conv2}, {"bn2", bn2}});
    register_modules({{"conv3", conv3}, {"bn3", bn3}});
    if (o.stride == 1 && o.in == out) return;
    register_module("downsample", downsample.emplace(o.in, out, shortcut(o.stride)));
  }
};

template <class Block>
void add_blocks(Sequential& layer, int count, BlockOptions options) {
  for (int i = 0; i < count; ++i) {
    layer.add<Block>(options);
    options.in = options.planes * Block::kExpansion;
    options.stride = 1;
  }
}

// Stage i has 64 * 2^i planes; all but the first halve the image.
template <class Block>
void add_stages(const std::array<Sequential*, 4>& layers, const ResNetLayout& layout,
                double last_weight) {
  int64_t in = 64;
  for (size_t i = 0; i < layers.size(); ++i) {
    int64_t planes = int64_t{64} << i;
    add_blocks<Block>(
        *layers[i], layout.blocks[i],
        {in, planes, i == 0 ? 1 : 2, layout.groups, layout.width_per_group, last_weight});
    in = planes * Block::kExpansion;
  }
}

}  // namespace

ResNet::ResNet(const ResNetLayout& layout, const ResNetOptions& options)
    : fc(512 * (layout.bottleneck ? Bottleneck::kExpansion : BasicBlock::kExpansion),
         options.classes) {
  std::array<Sequential*, 4> layers{&layer1, &layer2, &layer3, &layer4};
  double last_weight = options.zero_init_residual ? 0 : 1;
  if (layout.bottleneck)
    add_stages<Bottleneck>(layers, layout, last_weight);
  else
    add_stages<BasicBlock>(layers, layout, last_weight);
  register_modules({{"conv1", conv1}, {"bn1", bn1}, {"maxpool", maxpool}});
  register_modules({{"layer1", layer1}, {"layer2", layer2}, {"layer3", layer3}});
  register_modules({{"layer4", layer4}, {"avgpool", avgpool}, {"fc", fc}});
}

Tensor ResNet::forward(Tensor x) {
  x = bn1(conv1.for_norm(std::move(x)), {.activation = Activation::relu});
  x = maxpool(std::move(x));
  x = layer1(std::move(x));
  x = layer2(std::move(x));
  x = layer3(std::move(x));
  x = layer4(std::move(x));
  return fc(avgpool(std::move(x)));
}

}  // namespace brim::nn
