// A norm that is left to the convolution that reads it: what the layers compute with it, and where
// they call it themselves.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "brim/autograd/backward.h"
#include "brim/autograd/op.h"
#include "brim/nn/fold.h"
#include "brim/nn/layers.h"
#include "brim/nn/models/conv_bn.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/autocast.h"
#include "brim/tests/support/compare.h"

namespace brim {
namespace {

/// 1x1 up, depthwise, 1x1 down, each with its norm.
struct Block final : nn::Module {
  explicit Block(bool leaves_norms) : leaves_norms(leaves_norms) {
    register_modules({{"up", up}, {"bn1", bn1}, {"wide", wide}, {"bn2", bn2}, {"down", down}});
    register_module("bn3", bn3);
    nn::initialize(*this, 1);
  }
  Tensor forward(Tensor x) override {
    if (!leaves_norms) {
      x = bn1(up.for_norm(std::move(x)), {.activation = Activation::relu6});
      x = bn2(wide.for_norm(std::move(x)), {.activation = Activation::relu});
      return bn3(down.for_norm(std::move(x)));
    }
    nn::PendingNorm hidden = bn1.pending(up.for_norm(std::move(x)), Activation::relu6);
    hidden = bn2.pending(wide.for_norm(std::move(hidden)), Activation::relu);
    return bn3(down.for_norm(std::move(hidden)));
  }

  bool leaves_norms;
  nn::Conv2d up{8, 32, {.bias = false}};
  nn::BatchNorm2d bn1{32};
  nn::Conv2d wide{32, 32, {.kernel = 3, .padding = 1, .groups = 32, .bias = false}};
  nn::BatchNorm2d bn2{32};
  nn::Conv2d down{32, 16, {.bias = false}};
  nn::BatchNorm2d bn3{16};
};

Tensor images(Dtype dtype = Dtype::float32) {
  return normal({4, 12, 13, 8}, 1, RandomKey{2}, {.dtype = dtype});
}

/// Paths of the modules in which ops of a name ran forward.
class Places final : public autograd::OpObserver {
 public:
  explicit Places(std::string_view op) : op_(op) {}
  void ran(const autograd::OpEvent& event) override {
    if (event.phase == autograd::Phase::forward && event.op.name() == op_)
      modules.insert(event.module);
  }
  std::set<std::string> modules;

 private:
  std::string_view op_;
};
using Names = std::set<std::string>;

/// Of the same call of both.
void check_same_result(Block& pending, Block& direct) {
  CHECK(testing::bit_difference(pending(images()), direct(images())) == "");
}

}  // namespace

// In float64 gradients too are summed in one order; what that of float32 changes is in the op's
// test.
TEST_CASE("a norm that is left to the next convolution trains as one that is called") {
  for (const Dtype dtype : {Dtype::float32, Dtype::float64}) {
    CAPTURE(to_string(dtype));
    Block pending(true), direct(false);
    pending.to(dtype);
    direct.to(dtype);
    const Tensor dy = normal({4, 12, 13, 16}, 1, RandomKey{3}, {.dtype = dtype});
    Places on_the_way("normalized_conv2d"), norms("batch_norm");
    Tensor y = pending(images(dtype));
    CHECK(on_the_way.modules == Names{"wide", "down"});
    CHECK(norms.modules == Names{"bn3"});
    Tensor expected = direct(images(dtype));
    CHECK(testing::bit_difference(y, expected) == "");
    backward(std::move(y), {.grad = dy});
    backward(std::move(expected), {.grad = dy});
    for (const nn::NamedTensor& parameter : pending.named_parameters()) {
      CAPTURE(parameter.name);
      const Tensor gradient = direct.tensor(parameter.name).grad();
      REQUIRE(parameter.tensor.grad().defined());
      if (dtype == Dtype::float64)
        CHECK(testing::bit_difference(parameter.tensor.grad(), gradient) == "");
    }
    for (const nn::NamedTensor& buffer : pending.named_buffers()) {
      CAPTURE(buffer.name);
      CHECK(testing::bit_difference(buffer.tensor, direct.tensor(buffer.name)) == "");
    }
  }
}

TEST_CASE("a norm is called where the convolution does not take it, under its own name") {
  Block pending(true), direct(false);
  const Names all{"bn1", "bn2", "bn3"};
  Places norms("batch_norm"), on_the_way("normalized_conv2d");
  SUBCASE("in evaluation") {
    pending.eval();
    direct.eval();
    check_same_result(pending, direct);
  }
  SUBCASE("without gradients") {
    autograd::NoGradScope no_grad;
    check_same_result(pending, direct);
  }
  SUBCASE("where ops are not to be fused") {
    nn::UnfusedScope unfused;
    check_same_result(pending, direct);
  }
  SUBCASE("frozen") {
    pending.freeze("bn1");
    direct.freeze("bn1");
    pending.freeze("bn2");
    direct.freeze("bn2");
    check_same_result(pending, direct);
  }
  SUBCASE("in halves") {
    const Autocast autocast(Dtype::bfloat16);
    check_same_result(pending, direct);
  }
  CHECK(norms.modules == all);
  CHECK(on_the_way.modules.empty());
}

TEST_CASE("a norm that is folded, or bypassed, is as if it were called") {
  Block pending(true), direct(false);
  SUBCASE("folded") {
    pending.eval();
    direct.eval();
    CHECK(nn::fold_batch_norms(pending, images().shape()).folded.size() == 3);
    CHECK(nn::fold_batch_norms(direct, images().shape()).folded.size() == 3);
    check_same_result(pending, direct);
  }
  SUBCASE("bypassed") {
    pending.bn1.bypass();
    CHECK_THROWS_WITH_AS(pending(images()),
                         "module: 'bn1' is bypassed, and takes one tensor and nothing else",
                         ValueError);
  }
}

TEST_CASE("a convolution with its norm that is bypassed hands on what it gets, pending or not") {
  nn::ConvBn first(8, 32, {}), second(32, 32, {}), alone(8, 32, {});
  for (nn::Module* module : {&first, &second, &alone}) nn::initialize(*module, 1);
  second.bypass();
  const Tensor expected = alone(images());
  CHECK(testing::bit_difference(second(first.pending(images())), expected) == "");
  CHECK(testing::bit_difference(second.pending(first(images())).apply(), expected) == "");
}

TEST_CASE("mobile networks normalise on the way into depthwise and last convolutions of a block") {
  auto model = nn::make_model("mobilenet_v2", {.classes = 10, .device = Device::meta()});
  const Tensor x = empty({2, 64, 64, 3}, {.device = Device::meta()});
  Places on_the_way("normalized_conv2d"), norms("batch_norm");
  (*model)(x);
  CHECK(on_the_way.modules.contains("features.2.conv.1.0"));
  CHECK(on_the_way.modules.contains("features.2.conv.2"));
  CHECK(!norms.modules.contains("features.2.conv.0.1"));
  CHECK(norms.modules.contains("features.2.conv.3"));
  model->eval();
  (*model)(x);
  CHECK(norms.modules.contains("features.2.conv.0.1"));
  CHECK(norms.modules.contains("features.2.conv.1.1"));
}

}  // namespace brim
