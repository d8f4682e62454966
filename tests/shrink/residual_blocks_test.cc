// Residual blocks are found by what they compute, in bundled models and others, and a model
// without some of them runs, trains and is pruned like any other.
#include "brim/shrink/residual_blocks.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/nn/layers.h"
#include "brim/nn/summary.h"
#include "brim/ops/ops.h"
#include "brim/shrink/prune.h"
#include "brim/tests/shrink/zoo.h"
#include "brim/tests/support/errors.h"

using namespace brim;
using namespace brim::testing;

namespace {

using Names = std::vector<std::string>;

Names blocks_of(const std::string& name, const Names& exclude = {}) {
  auto model = make_zoo_model(name, {.classes = 10, .seed = {}, .device = Device::meta()});
  return shrink::residual_blocks(*model, zoo_input(name, 1), {exclude});
}

/// A block of one convolution whose forward is a function of the test.
class Block final : public nn::Module {
 public:
  using Forward = std::function<Tensor(Block&, Tensor)>;
  explicit Block(Forward forward) : forward_(std::move(forward)) {
    register_modules({{"conv", conv}});
  }
  Tensor forward(Tensor x) override { return forward_(*this, std::move(x)); }
  nn::Conv2d conv{8, 8, {.kernel = 3, .padding = 1}};

 private:
  Forward forward_;
};

Names blocks_with(const Block::Forward& forward) {
  nn::Sequential model;
  model.add<nn::Conv2d>(3, 8, nn::ConvOptions{.kernel = 3, .padding = 1});
  model.append(std::make_unique<Block>(forward));
  model.add<nn::Conv2d>(8, 4, nn::ConvOptions{.kernel = 3, .padding = 1});
  return shrink::residual_blocks(model, {1, 8, 8, 3});
}

}  // namespace

TEST_CASE("residual blocks: of bundled models those whose shape stays") {
  CHECK(blocks_of("resnet20") ==
        Names{"layer1.0", "layer1.1", "layer1.2", "layer2.1", "layer2.2", "layer3.1", "layer3.2"});
  CHECK(blocks_of("resnet20", {"layer1", "layer3.2.bn1"}) ==
        Names{"layer2.1", "layer2.2", "layer3.1"});
  if (is_instrumented()) return;
  CHECK(blocks_of("resnet50").size() == 12);
  CHECK(blocks_of("mobilenet_v2").size() == 10);
  for (int64_t side : {32, 64}) {  // at 32 the scales of the last gates have their images' shape
    auto model = nn::make_model("mobilenet_v3_small", {.seed = {}, .device = Device::meta()});
    const Names blocks = shrink::residual_blocks(*model, {1, side, side, 3});
    CHECK(blocks.size() == 6);
    for (const std::string& name : blocks) CHECK_MESSAGE(name.ends_with(".block"), name);
  }
  for (const char* without : {"vgg16", "mobilenet_v1", "densenet121", "alexnet", "unet"})
    CHECK(blocks_of(without).empty());
}

TEST_CASE("residual blocks: sums with what comes in, and nothing that only looks like it") {
  const Names block{"1"};
  CHECK(blocks_with([](Block& b, Tensor x) { return add(b.conv(x), x); }) == block);
  CHECK(blocks_with([](Block& b, Tensor x) { return relu(add(x, b.conv(relu(x)))); }) == block);
  CHECK(blocks_with([](Block& b, Tensor x) { return b.conv(x); }).empty());
  CHECK(blocks_with([](Block& b, Tensor x) { return relu(b.conv(x)); }).empty());
  // Behind the sum there are other channels.
  CHECK(blocks_with([](Block& b, Tensor x) { return b.conv(add(relu(x), x)); }).empty());
  // Gates are no sums.
  CHECK(blocks_with([](Block& b, Tensor x) { return mul(x, sigmoid(b.conv(x))); }).empty());
  CHECK(blocks_with([](Block&, Tensor x) { return mul(x, adaptive_avg_pool2d(x, 1)); }).empty());
}

TEST_CASE("residual blocks: a model that lost some trains, and its channels are pruned") {
  for (const std::string name : {"resnet20", "mobilenet_v3_small"}) {
    CAPTURE(name);
    auto model = make_zoo_model(name, {.classes = 10, .seed = 1});
    const Shape input = zoo_input(name, 2);
    const double whole = nn::summarize(*model, input).flops;
    const Names blocks = shrink::residual_blocks(*model, input);
    for (size_t i = 0; i < blocks.size(); i += 2) model->module(blocks[i]).bypass();
    Names left = blocks;
    std::erase_if(left, [&](const std::string& block) {
      return std::ranges::count(model->bypassed_modules(), block) > 0;
    });
    CHECK(left.size() == blocks.size() / 2);
    CHECK(shrink::residual_blocks(*model, input) == left);
    CHECK(nn::summarize(*model, input).flops < whole);
    const shrink::Pruner pruner(*model, input);
    shrink::remove_channels(*model, pruner.to(0.7, shrink::flops_of(input)).cut);
    backward(sum((*model)(uniform(input, -1, 1, RandomKey{2}))));
    for (const nn::NamedTensor& parameter : model->named_parameters())
      CHECK(parameter.tensor.grad().shape() == parameter.tensor.shape());
  }
}
