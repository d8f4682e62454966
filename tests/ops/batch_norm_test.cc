#include "brim/ops/batch_norm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/autograd/effects.h"
#include "brim/base/parallel.h"
#include "brim/ops/add.h"
#include "brim/ops/hardswish.h"
#include "brim/ops/relu.h"
#include "brim/ops/relu6.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

// Inputs of the samples: x, weight, bias, running mean, running variance, perhaps a residual.

double activate(double y, Activation activation) {
  if (activation == Activation::none) return y;
  if (activation == Activation::hardswish) return y * std::clamp(y + 3, 0.0, 6.0) / 6;
  y = std::max(y, 0.0);
  return activation == Activation::relu6 ? std::min(y, 6.0) : y;
}

Tensors reference(const Tensors& in, const BatchNormOptions& options) {
  auto channels = static_cast<size_t>(in[0].size(-1));
  std::vector<double> x = in[0].to_vector<double>(), y(x.size()), residual(x.size());
  std::vector<double> weight = in[1].to_vector<double>(), bias = in[2].to_vector<double>();
  std::vector<double> mean = in[3].to_vector<double>(), variance = in[4].to_vector<double>();
  if (in.size() > 5) residual = in[5].to_vector<double>();
  if (options.training) {
    mean.assign(channels, 0);
    variance.assign(channels, 0);
    double n = static_cast<double>(x.size() / channels);
    for (size_t i = 0; i < x.size(); ++i) mean[i % channels] += x[i] / n;
    for (size_t i = 0; i < x.size(); ++i)
      variance[i % channels] += std::pow(x[i] - mean[i % channels], 2) / n;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    size_t c = i % channels;
    double xhat = (x[i] - mean[c]) / std::sqrt(variance[c] + options.epsilon);
    y[i] = activate(xhat * weight[c] + bias[c] + residual[i], options.activation);
  }
  return {from_vector(y, in[0].shape())};
}

// Running statistics are cloned: their change is not what is looked at here.
Tensors run(const Tensors& in, BatchNormOptions options) {
  if (in.size() > 5) options.residual = in[5];
  return {batch_norm(in[0], in[1], in[2], clone(in[3]), clone(in[4]), options)};
}

Tensor random(const Shape& shape, float low, float high, uint64_t key,
              Dtype dtype = Dtype::float64) {
  return uniform(shape, low, high, RandomKey{key}, {.dtype = dtype});
}

OpSample sample(const char* name, const Shape& shape, const BatchNormOptions& options,
                bool residual = false) {
  Shape channels{shape.back()};
  OpSample sample{
      .name = name,
      .inputs = {random(shape, -1, 3, 1), random(channels, 0.5, 3, 2), random(channels, -1, 2, 3),
                 random(channels, -1, 1, 4), random(channels, 0.5, 2, 5)},
      .run = [options](const Tensors& in) { return run(in, options); },
      .reference = [options](const Tensors& in) { return reference(in, options); },
      .reduction = options.training ? numel(shape) / shape.back() : 1,
      .backward_reduction = numel(shape) / shape.back(),
      .no_grad = {3, 4},
      .batched = {0},
      .wide = {1, 2, 3, 4}};
  if (residual) {
    sample.inputs.push_back(random(shape, -2, 2, 6));
    sample.batched.push_back(5);
  }
  return sample;
}

struct Values {
  Tensor x, weight, bias, mean, var, residual;
};
Values values(const Shape& shape) {
  Shape channels{shape.back()};
  constexpr Dtype kDtype = Dtype::float32;
  return {random(shape, -1, 3, 1, kDtype),     random(channels, 0.5, 3, 2, kDtype),
          random(channels, -1, 2, 3, kDtype),  random(channels, -1, 1, 4, kDtype),
          random(channels, 0.5, 2, 5, kDtype), random(shape, -2, 2, 6, kDtype)};
}

// y and all gradients of a call.
std::vector<float> bits(const Shape& shape, const std::function<Tensor(const Values&)>& call) {
  Values v = values(shape);
  Tensor dy = random(shape, -1, 1, 7, Dtype::float32);
  for (Tensor* t : {&v.x, &v.weight, &v.bias, &v.residual}) t->set_requires_grad();
  Tensor y = call(v);
  backward(y, {.grad = dy});
  std::vector<float> all = y.to_vector<float>();
  for (const Tensor& t : {v.x, v.weight, v.bias, v.residual})
    if (t.grad().defined())
      for (float value : t.grad().to_vector<float>()) all.push_back(value);
  return all;
}

constexpr Activation kNone = Activation::none, kRelu = Activation::relu, kRelu6 = Activation::relu6,
                     kHardswish = Activation::hardswish;

}  // namespace

TEST_CASE("batch_norm: spec") {
  auto call = [](const Shape& x, const Shape& channels, BatchNormOptions options = {}) {
    return [=] {
      Tensor c = ones(channels);
      batch_norm(ones(x), c, c, clone(c), clone(c), options);
    };
  };
  check_op(
      {.op = "batch_norm",
       .samples = {sample("training", {3, 4, 5, 6}, {}),
                   sample("few channels", {2, 9, 11, 3}, {.activation = kRelu}),
                   sample("many channels", {5, 2, 2, 150}, {.activation = kRelu6}),
                   sample("features", {7, 4}, {.epsilon = 1e-3}),
                   sample("residual", {2, 3, 3, 5}, {}, true),
                   sample("residual and relu", {2, 3, 3, 5}, {.activation = kRelu}, true),
                   sample("residual and relu6", {2, 3, 3, 5}, {.activation = kRelu6}, true),
                   sample("hardswish", {2, 5, 3, 40}, {.activation = kHardswish}),
                   sample("residual and hardswish", {2, 3, 3, 5}, {.activation = kHardswish}, true),
                   sample("evaluation", {2, 3, 3, 5}, {.training = false}),
                   sample("evaluation, relu", {2, 3, 3, 5},
                          {.activation = kRelu, .training = false}),
                   sample("evaluation, one value", {1, 5}, {.training = false}),
                   sample("evaluation, residual and relu6", {2, 3, 3, 5},
                          {.activation = kRelu6, .training = false}, true),
                   sample("evaluation, hardswish", {2, 3, 3, 5},
                          {.activation = kHardswish, .training = false}),
                   sample("evaluation, residual and hardswish", {2, 3, 3, 5},
                          {.activation = kHardswish, .training = false}, true)},
       .errors = {
           {call({1, 1, 1, 3}, {3}),
            "batch_norm: expected more than 1 value per channel when training, got input "
            "[1,1,1,3]"},
           {call({2, 4}, {3}), "batch_norm: expected weight of shape [4] for input [2,4], got [3]"},
           {call({2, 3}, {3}, {.epsilon = 0}), "expected a positive epsilon, got 0"},
           {call({2, 3}, {3}, {.momentum = 2}), "expected a momentum in [0, 1], got 2"},
           {call({2, 3}, {3}, {.residual = ones({2, 1})}),
            "expected a residual of the input's shape [2,3], got [2,1]"},
           {call({}, {1}), "expected an input with channels, got a scalar"},
           {[] {
              Tensor c = ones({3}), elsewhere = ones({3}, {.device = Device::meta()});
              batch_norm(ones({2, 3}), c, c, elsewhere, elsewhere, {.training = false});
            },
            "batch_norm: expected running_mean on cpu, got it on meta"},
           {[] {
              Tensor c = ones({3}), strided = ones({6});
              strided = Tensor(strided.storage(), Layout{.shape = {3}, .strides = {2}});
              batch_norm(ones({2, 3}), c, c, strided, strided);
            },
            "expected contiguous running_mean and running_var to update"},
           {[] {
              TensorOptions half{.dtype = Dtype::bfloat16};
              Tensor c = ones({3});
              batch_norm(ones({2, 3}, half), c, c, c, ones({3}, half));
            },
            "expected running_mean and running_var of one dtype, got float32 and bfloat16"},
           {[] {
              Tensor c = ones({3});
              batch_norm(ones({2, 3}, {.dtype = Dtype::float64}), c, c, c, c);
            },
            "batch_norm: expected weight of float64, got float32"},
           {[] {
              batch_norm(ones({2, 3}), ones({3}), ones({3}), {}, {}, {.training = false});
            },
            "batch_norm: expected running statistics for evaluation"},
           {[] {
              batch_norm(ones({2, 3}), ones({3}), ones({3}), ones({3}), {});
            },
            "batch_norm: expected both running_mean and running_var, or neither"},
           {call({2, 3}, {3}, {.mean = ones({3}, {.dtype = Dtype::float64})}),
            "batch_norm: expected both mean and variance of the batch, or neither"},
           {call({2, 3}, {3}, {.mean = ones({3}), .variance = ones({3})}),
            "batch_norm: expected mean and variance of the batch as float64 [3] beside the input, "
            "got float32 [3]"},
           {call({2, 3}, {3},
                 {.mean = ones({3}, {.dtype = Dtype::float64}),
                  .variance = ones({2}, {.dtype = Dtype::float64})}),
            "batch_norm: expected mean and variance of the batch as float64 [3] beside the input, "
            "got float64 [2]"}}});
}

TEST_CASE("batch_norm: residual and activation have the bits of ops of their own") {
  for (Activation activation : {kNone, kRelu, kRelu6, kHardswish})
    for (bool residual : {false, true})
      for (bool training : {false, true}) {
        CAPTURE(to_string(activation));
        CAPTURE(residual);
        CAPTURE(training);
        auto fused = [&](const Values& v) {
          return batch_norm(v.x, v.weight, v.bias, v.mean, v.var,
                            {.residual = residual ? v.residual : Tensor(),
                             .activation = activation,
                             .training = training});
        };
        auto composed = [&](const Values& v) {
          Tensor y = batch_norm(v.x, v.weight, v.bias, v.mean, v.var, {.training = training});
          if (residual) y = add(y, v.residual);
          if (activation == kRelu) y = relu(y);
          if (activation == kRelu6) y = relu6(y);
          if (activation == kHardswish) y = hardswish(y);
          return y;
        };
        CHECK(bits({5, 7, 9, 24}, fused) == bits({5, 7, 9, 24}, composed));
      }
}

TEST_CASE("batch_norm: running statistics move once per call, with Bessel's correction") {
  Tensor x = from_vector<float>({1, 10, 2, 20, 6, 60}, {3, 2}), one = ones({2});
  x.set_requires_grad();
  Tensor mean = from_vector<float>({1, 2}, {2}), var = from_vector<float>({1, 2}, {2});
  Tensor y = batch_norm(x, one, one, mean, var, {.momentum = 0.25});
  // Means 3 and 30, unbiased variances 7 and 700.
  CHECK(mean.to_vector<float>() == std::vector<float>{1.5f, 9});
  CHECK(var.to_vector<float>() == std::vector<float>{2.5f, 176.5f});
  backward(y, {.grad = ones({3, 2})});
  CHECK(mean.to_vector<float>() == std::vector<float>{1.5f, 9});

  batch_norm(x, one, one, mean, var, {.training = false});
  CHECK(mean.to_vector<float>() == std::vector<float>{1.5f, 9});
  CHECK(var.to_vector<float>() == std::vector<float>{2.5f, 176.5f});
}

TEST_CASE("batch_norm: inside an effect scope the shadows move") {
  Values v = values({4, 3});
  Tensor mean = clone(v.mean), var = clone(v.var);
  std::vector<std::pair<Tensor, Tensor>> shadows{{v.mean, mean}, {v.var, var}};
  std::vector<float> before = v.mean.to_vector<float>();
  {
    autograd::EffectScope scope(shadows);
    batch_norm(v.x, v.weight, v.bias, v.mean, v.var);
  }
  CHECK(v.mean.to_vector<float>() == before);
  CHECK(mean.to_vector<float>() != before);
  batch_norm(v.x, v.weight, v.bias, v.mean, v.var);
  CHECK(v.mean.to_vector<float>() == mean.to_vector<float>());
  CHECK(v.var.to_vector<float>() == var.to_vector<float>());
}

TEST_CASE("batch_norm: running statistics may be left out in training") {
  Values v = values({4, 3});
  Tensor with = batch_norm(v.x, v.weight, v.bias, v.mean, v.var);
  Tensor without = batch_norm(v.x, v.weight, v.bias, {}, {});
  CHECK(with.to_vector<float>() == without.to_vector<float>());
}

TEST_CASE("batch_norm: a mean far beyond the deviation costs no digits") {
  // x - 10000 is known to 2^-11 here; the reference sees the same rounded values.
  constexpr int64_t kPixels = 40000, kChannels = 8;
  Tensor noise = normal({kPixels, kChannels}, 1, RandomKey{9});
  std::vector<double> x = noise.to_vector<double>();
  for (double& value : x) value = static_cast<float>(value + 1e4);
  // The worst case for a shift: the first pixels are nowhere near the mean.
  SUBCASE("and all alike") {}
  SUBCASE("and the first pixels elsewhere") {
    for (size_t i = 0; i < 40 * kChannels; ++i) x[i] = 0;
  }
  Tensor exact = from_vector(x, {kPixels, kChannels});
  Tensor one = ones({kChannels}, {.dtype = Dtype::float64});
  Tensor zero = zeros({kChannels}, {.dtype = Dtype::float64});
  std::vector<double> expected =
      reference({exact, one, zero, zero, one}, {})[0].to_vector<double>();
  std::vector<double> y =
      batch_norm(convert_to(exact, {}), ones({kChannels}), zeros({kChannels}), {}, {})
          .to_vector<double>();
  double worst = 0;
  for (size_t i = 0; i < y.size(); ++i)
    worst = std::max(worst, std::abs(y[i] - expected[i]) / (1 + std::abs(expected[i])));
  // Before it goes to a double, a term of the statistics passes up to 36 additions in float32 (128
  // rows, four at a time), each off by at most epsilon / 2: 18 epsilon if all erred one way. They
  // err both ways, so that half of that is far from what 40,000 terms leave.
  CHECK(worst < 8 * epsilon(Dtype::float32));
}

TEST_CASE("batch_norm: results that go past the caches are those of smaller ones") {
  for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16, Dtype::float16}) {
    CAPTURE(to_string(dtype));
    // Just above 24 MiB, and no whole number of rows; the halves are below. Pixels and rows begin
    // inside of the caches' lines.
    const int64_t channels = dtype == Dtype::float32 ? 25 : 49;
    const Shape shape{2, 1001, 131, channels}, half{1, 1001, 131, channels};
    const Values v = values(shape);
    const Tensor x = convert_to(v.x, {.dtype = dtype});
    const Tensor dy = convert_to(v.residual, {.dtype = dtype});
    auto run = [&](const Tensor& from, const Tensor& grad, std::vector<float>& y,
                   std::vector<float>& dx) {
      Tensor leaf = clone(from).set_requires_grad();
      Tensor result = batch_norm(leaf, v.weight, v.bias, v.mean, v.var,
                                 {.activation = kRelu6, .training = false});
      backward(result, {.grad = grad});
      for (float value : result.to_vector<float>()) y.push_back(value);
      for (float value : leaf.grad().to_vector<float>()) dx.push_back(value);
    };
    auto part = [&](const Tensor& whole, int64_t i) {
      return Tensor(whole.storage(), {half, contiguous_strides(half), i * numel(half), dtype});
    };
    std::vector<float> y, dx, y_of_halves, dx_of_halves;
    run(x, dy, y, dx);
    for (int64_t i : {0, 1}) run(part(x, i), part(dy, i), y_of_halves, dx_of_halves);
    CHECK((y == y_of_halves));
    CHECK((dx == dx_of_halves));
  }
}

TEST_CASE("batch_norm: results do not depend on the number of threads") {
  auto relu_of = [](const Values& v) {
    return batch_norm(v.x, v.weight, v.bias, v.mean, v.var, {.activation = kRelu});
  };
  int threads = num_threads();
  set_num_threads(1);
  std::vector<float> one = bits({8, 20, 20, 24}, relu_of);
  set_num_threads(3);
  std::vector<float> three = bits({8, 20, 20, 24}, relu_of);
  set_num_threads(threads);
  CHECK(one == three);
}

}  // namespace brim
