#include "brim/nn/models/shufflenet_v2.h"

#include <cmath>
#include <optional>

#include "brim/nn/models/concat_channels.h"
#include "brim/ops/reshape.h"
#include "brim/ops/split.h"

namespace brim::nn {
namespace {

// PyTorch's own initial values, which torchvision leaves as they are: +-1/sqrt(fan in).
Init torch_weight() { return init::kaiming_uniform({.gain = 1 / std::sqrt(3.0)}); }

ConvOptions pointwise() { return {.bias = false, .weight_init = torch_weight()}; }

ConvOptions depthwise(int64_t channels, int64_t stride) {
  return {.kernel = 3,
          .stride = stride,
          .padding = 1,
          .groups = channels,
          .bias = false,
          .weight_init = torch_weight()};
}

// Depthwise and pointwise. Numbers as names count the ReLUs too, here and below.
class ShortBranch final : public Module {
 public:
  ShortBranch(int64_t in, int64_t out)
      : conv0_(in, in, depthwise(in, 2)), bn1_(in), conv2_(in, out, pointwise()), bn3_(out) {
    register_modules({{"0", conv0_}, {"1", bn1_}, {"2", conv2_}, {"3", bn3_}});
  }
  Tensor forward(Tensor x) override {
    PendingNorm hidden = bn1_.pending(conv0_.for_norm(std::move(x)), Activation::none);
    return bn3_(conv2_.for_norm(std::move(hidden)), {.activation = Activation::relu});
  }
  std::string_view kind() const override { return "ShortBranch"; }

 private:
  Conv2d conv0_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn3_;
};

// Pointwise, depthwise and pointwise.
class LongBranch final : public Module {
 public:
  LongBranch(int64_t in, int64_t out, int64_t stride)
      : conv0_(in, out, pointwise()),
        bn1_(out),
        conv3_(out, out, depthwise(out, stride)),
        bn4_(out),
        conv5_(out, out, pointwise()),
        bn6_(out) {
    register_modules({{"0", conv0_}, {"1", bn1_}, {"3", conv3_}, {"4", bn4_}});
    register_modules({{"5", conv5_}, {"6", bn6_}});
  }
  Tensor forward(Tensor x) override {
    PendingNorm hidden = bn1_.pending(conv0_.for_norm(std::move(x)), Activation::relu);
    hidden = bn4_.pending(conv3_.for_norm(std::move(hidden)), Activation::none);
    return bn6_(conv5_.for_norm(std::move(hidden)), {.activation = Activation::relu});
  }
  std::string_view kind() const override { return "LongBranch"; }

 private:
  Conv2d conv0_;
  BatchNorm2d bn1_;
  Conv2d conv3_;
  BatchNorm2d bn4_;
  Conv2d conv5_;
  BatchNorm2d bn6_;
};

// The channels of a and b in turn: those of the concatenation after a shuffle of two groups.
Tensor interleave(Tensor a, Tensor b, Where where) {
  Shape one = a.shape(), joined = one;
  one.push_back(1);
  joined[3] *= 2;
  a = reshape(std::move(a), one, where);
  b = reshape(std::move(b), one, where);
  return reshape(concat_channels(where, std::move(a), std::move(b)), joined, where);
}

// Half of the channels go through a branch; where the unit halves the image, all go through two.
class ShuffleUnit final : public Module {
 public:
  ShuffleUnit(int64_t in, int64_t out, int64_t stride)
      : branch2_(stride == 1 ? in / 2 : in, out / 2, stride) {
    if (stride > 1) register_module("branch1", branch1_.emplace(in, out / 2));
    register_module("branch2", branch2_);
  }
  Tensor forward(Tensor x) override {
    Tensor shortcut;
    if (branch1_) {
      shortcut = (*branch1_)(x);
    } else {
      int64_t half = x.size(3) / 2;
      std::vector<Tensor> halves = split(std::move(x), half, -1, where());
      shortcut = std::move(halves[0]);
      x = std::move(halves[1]);
    }
    return interleave(std::move(shortcut), branch2_(std::move(x)), where());
  }
  std::string_view kind() const override { return "ShuffleUnit"; }

 private:
  std::optional<ShortBranch> branch1_;
  LongBranch branch2_;
};

void add_units(Sequential& stage, int count, int64_t in, int64_t out) {
  expect<ValueError>(out % 2 == 0, "ShuffleNetV2",
                     "expected stages of an even number of channels, got {}", out);
  stage.add<ShuffleUnit>(in, out, 2);
  for (int i = 1; i < count; ++i) stage.add<ShuffleUnit>(out, out, 1);
}

}  // namespace

ShuffleNetV2::ShuffleNetV2(const ShuffleNetV2Layout& layout, const ShuffleNetV2Options& options)
    : conv1(3, layout.channels[0], {.kernel = 3, .stride = 2, .weight_init = torch_weight()}),
      conv5(layout.channels[3], layout.channels[4], {.weight_init = torch_weight()}),
      fc(layout.channels[4], options.classes) {
  std::array<Sequential*, 3> stages{&stage2, &stage3, &stage4};
  for (size_t i = 0; i < stages.size(); ++i)
    add_units(*stages[i], layout.units[i], layout.channels[i], layout.channels[i + 1]);
  register_modules({{"conv1", conv1}, {"maxpool", maxpool}, {"stage2", stage2}});
  register_modules({{"stage3", stage3}, {"stage4", stage4}, {"conv5", conv5}});
  register_modules({{"avgpool", avgpool}, {"fc", fc}});
}

Tensor ShuffleNetV2::forward(Tensor x) {
  x = maxpool(conv1(std::move(x)));
  x = stage2(std::move(x));
  x = stage3(std::move(x));
  x = stage4(std::move(x));
  return fc(avgpool(conv5(std::move(x))));
}

}  // namespace brim::nn
