#include "brim/nn/summary.h"

#include <doctest/doctest.h>

#include "brim/autograd/random_context.h"
#include "brim/nn/layers.h"
#include "brim/nn/models/registry.h"

using namespace brim;

namespace {

class Small final : public nn::Module {
 public:
  Small() {
    register_modules({{"conv", conv}, {"bn", bn}, {"flatten", flatten}, {"fc", fc}});
    register_module("unused", unused);
  }
  Tensor forward(Tensor x) override { return fc(flatten(bn(conv(std::move(x))))); }
  nn::Conv2d conv{3, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn{8};
  nn::Flatten flatten;
  nn::Linear fc{8 * 4 * 4, 10};
  nn::Linear unused{2, 3};
};

// Reads its child's weight with an op of its own.
class Borrowing final : public nn::Module {
 public:
  Borrowing() { register_module("inner", inner); }
  Tensor forward(Tensor x) override { return linear(std::move(x), inner.weight, inner.bias); }
  nn::Linear inner{3, 2};
};
class WithBorrowing final : public nn::Module {
 public:
  WithBorrowing() { register_module("block", block); }
  Tensor forward(Tensor x) override { return block(std::move(x)); }
  Borrowing block;
};

}  // namespace

TEST_CASE("summary: parameters of a module that is not called count where they are read") {
  WithBorrowing model;
  nn::initialize(model, 1);
  const nn::Summary s = nn::summarize(model, {4, 3});
  REQUIRE(s.rows.size() == 1);
  CHECK(s.rows[0].layer == "block");
  CHECK(s.rows[0].op == "linear");
  CHECK(s.rows[0].parameters == 8);
}

TEST_CASE("summary: one row per op, with shapes, parameters, FLOPs and bytes") {
  Small model;
  nn::initialize(model, 1);
  model.freeze("conv");
  nn::Summary s = nn::summarize(model, {2, 4, 4, 3});
  REQUIRE(s.rows.size() == 5);
  const nn::SummaryRow& conv = s.rows[0];
  CHECK(conv.layer == "conv");
  CHECK(conv.op == "conv2d");
  CHECK(conv.output == Shape{2, 4, 4, 8});
  CHECK(conv.parameters == 27 * 8);
  CHECK(conv.flops == 2.0 * 2 * 16 * 8 * 27);
  CHECK(conv.activation_bytes == 2 * 16 * 8 * 4);
  CHECK(s.rows[1].parameters == 16);
  CHECK(s.rows[2].op == "reshape");
  CHECK(s.rows[2].activation_bytes == 0);  // a view
  CHECK(s.rows[3].output == Shape{2, 10});
  CHECK(s.rows[3].parameters == 1290);
  CHECK(s.rows[4].layer == "unused");
  CHECK(s.rows[4].op.empty());
  CHECK(s.parameters == model.parameter_count());
  CHECK(s.trainable_parameters == s.parameters - conv.parameters);
  CHECK(s.parameter_bytes == 4 * s.parameters);
  CHECK(s.buffer_bytes == 64);
  int64_t bytes = 0;
  double flops = 0;
  for (const nn::SummaryRow& row : s.rows) {
    bytes += row.activation_bytes;
    flops += row.flops;
  }
  CHECK(s.activation_bytes == bytes);
  CHECK(s.flops == flops);
}

TEST_CASE("summary: touches no byte of the host, and leaves the model as it was") {
  Small model;
  nn::initialize(model, 1);
  Tensor weight = model.conv.weight;
  int64_t before = memory::account(Device::cpu())->stats().requests;
  nn::summarize(model, {2, 4, 4, 3});
  CHECK(memory::account(Device::cpu())->stats().requests == before);
  CHECK(model.conv.weight.is_same(weight));
  CHECK_THROWS_AS(nn::summarize(model, {2, 4, 4, 5}), ShapeError);
  CHECK(model.conv.weight.is_same(weight));
}

TEST_CASE("summary: ResNet-50 costs what its authors say") {
  auto model = nn::make_model("resnet50", {.seed = std::nullopt, .device = Device::meta()});
  model->eval();
  nn::Summary s = nn::summarize(*model, {1, 224, 224, 3});
  double convolutions = 0;
  for (const nn::SummaryRow& row : s.rows)
    if (row.op == "conv2d" || row.op == "linear") convolutions += row.flops;
  // 4.089 G multiply-adds, as torchvision lists them.
  CHECK(convolutions / 2e9 == doctest::Approx(4.089).epsilon(0.001));
  std::string text = nn::to_string(s);
  CHECK(text.find("layer4.2.conv3") != std::string::npos);
  CHECK(text.find("[1,7,7,2048]") != std::string::npos);
  CHECK(text.find("25,557,032") != std::string::npos);
}

TEST_CASE("summary: masks of dropout are as if it had not been asked for") {
  nn::Dropout drop{0.5};
  auto mask_after = [&](bool asked) {
    autograd::manual_seed(3);
    if (asked) nn::summarize(drop, {1, 64});
    return drop(ones({1, 64})).to_vector<float>();
  };
  CHECK(mask_after(true) == mask_after(false));
}
