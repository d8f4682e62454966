#include "brim/nn/models/resnet_cifar.h"

#include "brim/ops/pad.h"
#include "brim/ops/slice.h"

namespace brim::nn {
namespace {

class CifarBlock final : public Module {
 public:
  CifarBlock(int64_t in, int64_t out)
      : conv1(in, out, {.kernel = 3, .stride = out / in, .padding = 1, .bias = false}),
        bn1(out),
        conv2(out, out, {.kernel = 3, .padding = 1, .bias = false}),
        bn2(out),
        halves_(out > in) {
    register_modules({{"conv1", conv1}, {"bn1", bn1}, {"conv2", conv2}, {"bn2", bn2}});
  }

  Tensor forward(Tensor x) override {
    // First, for its gradient to come last: then it is added to that of all pixels.
    Tensor shortcut = halves_ ? subsample(x) : x;
    PendingNorm y = bn1.pending(conv1.for_norm(std::move(x)), Activation::relu);
    return bn2(conv2.for_norm(std::move(y)),
               {.residual = std::move(shortcut), .activation = Activation::relu});
  }
  std::string_view kind() const override { return "CifarBlock"; }

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;

 private:
  // Zero channels on both sides of the old ones, as in the implementations that reproduced it.
  Tensor subsample(Tensor x) const {
    x = slice(std::move(x), {{1, {.step = 2}}, {2, {.step = 2}}});
    const int64_t added = (conv2.weight.size(0) - x.size(3)) / 2;
    return pad(std::move(x), {{}, {}, {}, {added, added}});
  }

  bool halves_;  // the image, with twice the channels
};

}  // namespace

CifarResNet::CifarResNet(int blocks_per_stage, const CifarResNetOptions& options)
    : fc(64, options.classes) {
  expect<ValueError>(blocks_per_stage > 0, "CifarResNet", "expected at least one block, got {}",
                     blocks_per_stage);
  int64_t in = 16, out = 16;
  for (Sequential* layer : {&layer1, &layer2, &layer3}) {
    for (int i = 0; i < blocks_per_stage; ++i) {
      layer->add<CifarBlock>(in, out);
      in = out;
    }
    out *= 2;
  }
  register_modules({{"conv1", conv1}, {"bn1", bn1}, {"layer1", layer1}, {"layer2", layer2}});
  register_modules({{"layer3", layer3}, {"avgpool", avgpool}, {"fc", fc}});
}

Tensor CifarResNet::forward(Tensor x) {
  x = bn1(conv1(std::move(x)), {.activation = Activation::relu});
  x = layer1(std::move(x));
  x = layer2(std::move(x));
  x = layer3(std::move(x));
  return fc(avgpool(std::move(x)));
}

}  // namespace brim::nn
