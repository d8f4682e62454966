#include "brim/nn/layers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/ops/conv2d.h"

using namespace brim;

namespace {

Tensor image(const Shape& shape = {2, 6, 5, 4}) { return uniform(shape, -2, 2, RandomKey{3}); }

void check_equal(const Tensor& a, const Tensor& b) {
  CHECK(a.shape() == b.shape());
  CHECK(a.to_vector<float>() == b.to_vector<float>());
}

}  // namespace

TEST_CASE("layers: each gives what its op gives") {
  Tensor x = image();
  nn::Conv2d conv(4, 8, {.kernel = {3, 1}, .stride = {2, 1}, .padding = {1, 0}, .groups = 2});
  nn::initialize(conv, 1);
  fill(conv.bias, 0.25);
  CHECK(conv.weight.shape() == Shape{8, 3, 1, 2});
  check_equal(conv(x), conv2d(x, conv.weight, conv.bias,
                              {.stride = {2, 1}, .padding = {1, 0}, .groups = 2}));
  nn::Linear fc(4, 3);
  nn::initialize(fc, 1);
  check_equal(fc(x), linear(x, fc.weight, fc.bias));
  check_equal(nn::MaxPool2d({.kernel = 3, .stride = 2, .padding = 1})(x),
              max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}));
  check_equal(nn::AvgPool2d({.kernel = 2})(x), avg_pool2d(x, {.kernel = 2}));
  check_equal(nn::GlobalAvgPool()(x), global_avg_pool(x));
  check_equal(nn::AdaptiveAvgPool2d({2, 3})(x), adaptive_avg_pool2d(x, {2, 3}));
  InterpolateOptions twice{.scale = 2, .mode = InterpolateMode::bilinear};
  check_equal(nn::Upsample(twice)(x), interpolate(x, twice));
  check_equal(nn::Identity()(x), x);
}

TEST_CASE("layers: the bias of a convolution starts at 0, or by a rule") {
  nn::Conv2d plain(3, 64), drawn(3, 64, {.bias_init = nn::init::constant(0.5)});
  nn::initialize(plain, 1);
  nn::initialize(drawn, 1);
  CHECK(plain.bias.to_vector<float>() == std::vector<float>(64, 0.0f));
  CHECK(drawn.bias.to_vector<float>() == std::vector<float>(64, 0.5f));
  CHECK(plain.weight.to_vector<float>() == drawn.weight.to_vector<float>());
}

TEST_CASE("layers: transposed convolution") {
  nn::ConvTranspose2d up(
      4, 6, {.kernel = {3, 2}, .stride = 2, .padding = {1, 0}, .output_padding = 1, .groups = 2});
  nn::initialize(up, 1);
  CHECK(up.weight.shape() == Shape{4, 3, 2, 3});
  Tensor x = image();
  check_equal(up(x),
              conv_transpose2d(x, up.weight, up.bias,
                               {.stride = 2, .padding = {1, 0}, .output_padding = 1, .groups = 2}));
  // The bound is 1 / sqrt(3 * 2 * 3), for the bias too.
  for (const Tensor& parameter : {up.weight, up.bias})
    for (float value : parameter.to_vector<float>()) CHECK(std::abs(value) <= 1 / std::sqrt(18.0));
  CHECK(std::ranges::max(up.weight.to_vector<float>()) > 0.9 / std::sqrt(18.0));
}

TEST_CASE("layers: an embedding is normal, but for the padding row") {
  nn::Embedding words(1000, 16, {.padding_index = 3});
  nn::initialize(words, 1);
  Tensor indices = from_vector<int64_t>({3, 0, 3, 7}, {2, 2});
  check_equal(words(indices), embedding(indices, words.weight));
  std::vector<float> weight = words.weight.to_vector<float>();
  CHECK(std::all_of(weight.begin() + 48, weight.begin() + 64, [](float v) { return v == 0; }));
  double squares = 0;
  for (float value : weight) squares += static_cast<double>(value) * value;
  // 15,984 squares of deviation sqrt(2): their mean is off by less than 5 of 0.0112.
  CHECK(std::abs(squares / 15984 - 1) < 0.056);
  backward(words(indices), {.grad = ones({2, 2, 16})});
  std::vector<float> gradient = words.weight.grad().to_vector<float>();
  CHECK(gradient[0] == 1);
  CHECK(gradient[48] == 0);
}

TEST_CASE("layers: each activation gives what its op gives, and goes by PyTorch's name") {
  Tensor x = image();
  auto check_activation = [&](nn::Module&& layer, const char* kind, const Tensor& expected) {
    CAPTURE(kind);
    CHECK(layer.kind() == kind);
    check_equal(layer(x), expected);
  };
  check_activation(nn::ReLU(), "ReLU", relu(x));
  check_activation(nn::ReLU6(), "ReLU6", relu6(x));
  check_activation(nn::Hardsigmoid(), "Hardsigmoid", hardsigmoid(x));
  check_activation(nn::Hardswish(), "Hardswish", hardswish(x));
  check_activation(nn::Sigmoid(), "Sigmoid", sigmoid(x));
  check_activation(nn::SiLU(), "SiLU", silu(x));
  check_activation(nn::Tanh(), "Tanh", tanh(x));
  check_activation(nn::GELU(), "GELU", gelu(x));
  GeluOptions by_tanh{.approximate = GeluApproximation::tanh};
  check_activation(nn::GELU(by_tanh), "GELU", gelu(x, by_tanh));
  check_activation(nn::LeakyReLU(), "LeakyReLU", leaky_relu(x));
  check_activation(nn::LeakyReLU({.negative_slope = 0.3}), "LeakyReLU",
                   leaky_relu(x, {.negative_slope = 0.3}));
}

TEST_CASE("layers: without bias there is none") {
  nn::Conv2d conv(4, 8, {.kernel = 3, .bias = false});
  CHECK_FALSE(conv.bias.defined());
  CHECK(conv.named_parameters().size() == 1);
  nn::ConvTranspose2d up(4, 8, {.kernel = 2, .bias = false});
  CHECK(up.named_parameters().size() == 1);
  nn::Linear fc(4, 3, {.bias = false});
  nn::initialize(fc, 1);
  CHECK(fc.named_parameters().size() == 1);
  check_equal(fc(image()), linear(image(), fc.weight, {}));
}

TEST_CASE("layers: batch norm takes residual and activation, and follows train and eval") {
  Tensor x = image(), residual = uniform(x.shape(), -1, 1, RandomKey{5});
  nn::BatchNorm2d bn(4);
  nn::initialize(bn, 1);
  Tensor mean = zeros({4}), var = ones({4});
  check_equal(bn(x, {.residual = residual, .activation = Activation::relu}),
              batch_norm(x, bn.weight, bn.bias, mean, var,
                         {.residual = residual, .activation = Activation::relu}));
  check_equal(bn.running_mean, mean);
  check_equal(bn.running_var, var);
  bn.eval();
  check_equal(bn(x), batch_norm(x, bn.weight, bn.bias, mean, var, {.training = false}));
  check_equal(bn.running_mean, mean);
}

TEST_CASE("layers: norms of single samples have parameters, or none") {
  Tensor x = image();
  nn::GroupNorm group(2, 4, {.epsilon = 1e-3});
  nn::initialize(group, 1);
  CHECK(group.weight.to_vector<float>() == std::vector<float>(4, 1));
  CHECK(group.bias.to_vector<float>() == std::vector<float>(4, 0));
  fill(group.bias, 0.25);
  check_equal(group(x), group_norm(x, 2, group.weight, group.bias, {.epsilon = 1e-3}));
  nn::LayerNorm layer({5, 4}, {.epsilon = 1e-3});
  nn::initialize(layer, 1);
  CHECK(layer.weight.to_vector<float>() == std::vector<float>(20, 1));
  fill(layer.weight, 2);
  check_equal(layer(x), layer_norm(x, {5, 4}, layer.weight, layer.bias, {.epsilon = 1e-3}));
  nn::GroupNorm bare_group(4, 4, {.affine = false});
  nn::LayerNorm bare_layer({4}, {.affine = false});
  CHECK(bare_group.named_parameters().empty());
  CHECK(bare_layer.named_parameters().empty());
  check_equal(bare_group(x), group_norm(x, 4, {}, {}));
  check_equal(bare_layer(x), layer_norm(x, {4}, {}, {}));
}

TEST_CASE("layers: flatten keeps samples apart, also when there are none") {
  nn::Flatten flatten;
  CHECK(flatten(image()).shape() == Shape{2, 120});
  CHECK(flatten(zeros({0, 2, 3, 4})).shape() == Shape{0, 24});
  CHECK(flatten(zeros({7})).shape() == Shape{7, 1});
  CHECK_THROWS_AS(flatten(zeros({})), ShapeError);
}

TEST_CASE("layers: dropout only in training") {
  nn::Dropout dropout(0.5);
  Tensor x = ones({100});
  std::vector<float> dropped = dropout(x).to_vector<float>();
  CHECK(std::ranges::count(dropped, 0.0f) > 20);
  CHECK(std::ranges::count(dropped, 2.0f) > 20);
  dropout.eval();
  check_equal(dropout(x), x);
  CHECK_THROWS_AS(nn::Dropout(1.5), ValueError);
  CHECK_THROWS_AS(nn::Dropout(-0.1), ValueError);
}

TEST_CASE("layers: sizes out of range") {
  CHECK_THROWS_AS(nn::Conv2d(0, 3), ValueError);
  CHECK_THROWS_AS(nn::Conv2d(3, 4, {.groups = 2}), ValueError);
  CHECK_THROWS_AS(nn::ConvTranspose2d(0, 3), ValueError);
  CHECK_THROWS_AS(nn::ConvTranspose2d(4, 3, {.groups = 2}), ValueError);
  CHECK_THROWS_AS(nn::Embedding(0, 3), ValueError);
  CHECK_THROWS_AS(nn::Embedding(2, 3, {.padding_index = 2}), ValueError);
  CHECK_THROWS_AS(nn::Linear(3, 0), ValueError);
  CHECK_THROWS_AS(nn::BatchNorm2d(0), ValueError);
  CHECK_THROWS_AS(nn::GroupNorm(3, 4), ValueError);
  CHECK_THROWS_AS(nn::GroupNorm(0, 4), ValueError);
  CHECK_THROWS_AS(nn::LayerNorm({4, 0}), ValueError);
  CHECK_THROWS_AS(nn::LayerNorm(Shape{}), ValueError);
}

TEST_CASE("layers: a Sequential hands each intermediate over") {
  nn::Sequential layers;
  layers.add<nn::ReLU>();
  layers.add<nn::ReLU6>();
  layers.add<nn::GlobalAvgPool>();
  CHECK(layers.size() == 3);
  CHECK(layers[1].kind() == "ReLU6");
  Tensor x = image();
  check_equal(layers(x), global_avg_pool(relu6(relu(x))));
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  Tensor y = zeros({1, 64, 64, 16});
  int64_t bytes = y.storage()->bytes();
  layers(std::move(y));
  CHECK(account->stats().peak_live <= 2 * bytes);
  CHECK(account->stats().live == 0);
}
