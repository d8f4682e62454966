#include "brim/nn/models/mobilenet_v1.h"

#include "brim/nn/models/conv_bn.h"

namespace brim::nn {
namespace {

class DepthwiseSeparable final : public Module {
 public:
  DepthwiseSeparable(int64_t in, int64_t out, int64_t stride)
      : depthwise(in, in, {.kernel = 3, .stride = stride, .groups = in}), pointwise(in, out, {}) {
    register_modules({{"0", depthwise}, {"1", pointwise}});
  }
  Tensor forward(Tensor x) override { return pointwise(depthwise.pending(std::move(x))); }
  std::string_view kind() const override { return "DepthwiseSeparable"; }

  ConvBn depthwise, pointwise;
};

struct Block {
  int64_t out, stride;
};
// Table 1 of the paper.
constexpr Block kBlocks[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                             {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};

}  // namespace

MobileNetV1::MobileNetV1(const MobileNetV1Options& options)
    : classifier(1024, options.classes,
                 {.weight_init = init::normal(0.01), .bias_init = init::constant(0)}) {
  features.add<ConvBn>(3, 32, ConvBnOptions{.kernel = 3, .stride = 2});
  int64_t in = 32;
  for (const Block& block : kBlocks) {
    features.add<DepthwiseSeparable>(in, block.out, block.stride);
    in = block.out;
  }
  register_modules({{"features", features}, {"avgpool", avgpool}, {"classifier", classifier}});
}

Tensor MobileNetV1::forward(Tensor x) { return classifier(avgpool(features(std::move(x)))); }

}  // namespace brim::nn
