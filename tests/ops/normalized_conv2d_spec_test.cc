// The op of a convolution that normalises its input, against its definition, and its errors.
#include <doctest/doctest.h>

#include "brim/ops/normalized_conv2d.h"
#include "brim/tests/support/convolution_reference.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

constexpr Activation kNone = Activation::none, kRelu = Activation::relu, kRelu6 = Activation::relu6,
                     kHardswish = Activation::hardswish;

struct Case {
  const char* name;
  Shape x, weight;
  Conv2dOptions window = {};
  Activation activation = kNone;
  bool bias = false;
};

/// Inputs: x, the weight of a first convolution, the norm's weight and bias, a weight, a bias.
OpSample sample(const Case& c) {
  const TensorOptions options{.dtype = Dtype::float64};
  const int64_t channels = c.x[3], before = 3;
  const auto random = [&](const Shape& shape, double low, double high, uint64_t key) {
    return uniform(shape, low, high, RandomKey{key}, options);
  };
  Tensors inputs{random({c.x[0], c.x[1], c.x[2], before}, -1, 2, 1),
                 random({channels, 1, 1, before}, -1, 1, 2), random({channels}, 0.5, 3, 3),
                 random({channels}, -1, 2, 4), random(c.weight, -1, 1, 5)};
  if (c.bias) inputs.push_back(random({c.weight[0]}, -1, 1, 6));
  const auto bias_of = [](const Tensors& in) { return in.size() > 5 ? in[5] : Tensor(); };
  return {.name = c.name,
          .inputs = inputs,
          .run =
              [c, bias_of](const Tensors& in) {
                Conv2dWithStatistics z = conv2d_with_statistics(in[0], in[1], {});
                return Tensors{
                    normalized_conv2d(
                        z.y,
                        {in[2],
                         in[3],
                         {},
                         {},
                         {.activation = c.activation, .mean = z.mean, .variance = z.variance}},
                        in[4], bias_of(in), c.window)
                        .y};
              },
          // Two ops whose own tests have loops for them, and loops.
          .reference =
              [c, bias_of](const Tensors& in) {
                const Tensor normalized = batch_norm(conv2d(in[0], in[1], {}), in[2], in[3], {}, {},
                                                     {.activation = c.activation});
                return Tensors{
                    testing::convolution_reference(normalized, in[4], bias_of(in), c.window)};
              },
          .reduction = c.x[0] * c.x[1] * c.x[2] + c.weight[1] * c.weight[2] * c.weight[3],
          .backward_reduction = c.x[0] * c.x[1] * c.x[2] * c.weight[0],
          .batched = {0},
          .wide = {2, 3}};
}

}  // namespace

TEST_CASE("normalized_conv2d: spec") {
  check_op({.op = "normalized_conv2d",
            .samples = {sample({"1x1", {2, 12, 13, 16}, {9, 1, 1, 16}, {}, kRelu6, true}),
                        sample({"depthwise",
                                {2, 5, 6, 16},
                                {16, 3, 3, 1},
                                {.padding = 1, .groups = 16},
                                kHardswish}),
                        sample({"depthwise stride 2",
                                {2, 6, 9, 16},
                                {16, 5, 5, 1},
                                {.stride = 2, .padding = 2, .groups = 16},
                                kRelu,
                                true}),
                        sample({"3x3", {2, 5, 4, 6}, {5, 3, 3, 6}, {.padding = 1}, kNone})}});
}

TEST_CASE("normalized_conv2d: errors are those of the two ops") {
  const Tensor x = ones({2, 5, 5, 4}), c = ones({4});
  const TensorOptions wide{.dtype = Dtype::float64};
  const auto run = [&](const Tensor& weight, const Tensor& bias, const Tensor& mean,
                       double epsilon = 1e-5) {
    return normalized_conv2d(
        x, {c, c, {}, {}, {.epsilon = epsilon, .mean = mean, .variance = ones({4}, wide)}}, weight,
        bias);
  };
  const Tensor mean = zeros({4}, wide), weight = ones({3, 1, 1, 4});
  CHECK_THROWS_WITH_AS(run(ones({3, 1, 1, 5}), {}, mean),
                       doctest::Contains("conv2d: expected input channels 5 to match weight"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      run(ones({3, 1, 1, 4}, wide), {}, mean),
      doctest::Contains("normalized_conv2d: expected one dtype, got float32 and float64"),
      DtypeError);
  CHECK_THROWS_WITH_AS(
      run(weight, ones({4}), mean),
      doctest::Contains("normalized_conv2d: expected bias of shape [3] to match weight"),
      ShapeError);
  CHECK_THROWS_WITH_AS(run(weight, {}, zeros({4})),
                       doctest::Contains("batch_norm: expected mean and variance of the batch"),
                       ValueError);
  CHECK_THROWS_WITH_AS(run(weight, {}, mean, 0),
                       doctest::Contains("batch_norm: expected a positive epsilon, got 0"),
                       ValueError);
}

}  // namespace brim
