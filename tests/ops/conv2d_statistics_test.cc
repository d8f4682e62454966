// The statistics that a convolution gathers for the batch norm that follows it.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "brim/autograd/backward.h"
#include "brim/base/parallel.h"
#include "brim/ops/add.h"
#include "brim/ops/autocast.h"
#include "brim/ops/batch_norm.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/conv_shape.h"
#include "brim/ops/cpu/depthwise.h"
#include "brim/ops/cpu/pointwise.h"
#include "brim/ops/cpu/winograd.h"
#include "brim/ops/slice.h"
#include "brim/tests/support/compare.h"

namespace brim {
namespace {

struct Case {
  const char* name;
  Shape x, weight;
  Conv2dOptions options = {};
  bool bias = false;
};

const Case kCases[] = {
    {"1x1", {3, 23, 31, 24}, {150, 1, 1, 24}},
    {"1x1, few channels, bias", {2, 41, 33, 8}, {10, 1, 1, 8}, {}, true},
    {"1x1, deep", {4, 9, 8, 1030}, {96, 1, 1, 1030}},
    {"1x1 stride 2", {3, 45, 51, 40}, {72, 1, 1, 40}, {.stride = 2}},
    {"3x3", {24, 15, 17, 64}, {80, 3, 3, 64}, {.padding = 1}, true},
    {"3x3, large", {8, 31, 30, 32}, {160, 3, 3, 32}, {.padding = 1}},
    {"5x5, by a library", {2, 20, 19, 16}, {24, 5, 5, 16}, {.padding = 2}},
    {"depthwise", {3, 31, 29, 32}, {32, 3, 3, 1}, {.padding = 1, .groups = 32}, true},
    {"depthwise stride 2",
     {2, 58, 59, 144},
     {144, 3, 3, 1},
     {.stride = 2, .padding = 1, .groups = 144}},
    {"depthwise 5x5", {2, 7, 9, 96}, {96, 5, 5, 1}, {.padding = 2, .groups = 96}},
    {"depthwise, odd channels", {2, 30, 29, 41}, {41, 3, 3, 1}, {.padding = 1, .groups = 41}},
    {"few pixels", {1, 2, 2, 256}, {128, 3, 3, 256}, {.padding = 1}},
    {"3x3, small images", {160, 6, 5, 64}, {80, 3, 3, 64}, {.padding = 1}},
};

struct Operands {
  Tensor x, weight, bias;
};
Operands operands_of(const Case& c, double bias = 3) {
  const TensorOptions options{.dtype = Dtype::float32};
  Tensor added = c.bias ? full({c.weight[0]}, bias, options) : Tensor();
  return {normal(c.x, 1, RandomKey{1}, options), normal(c.weight, 1, RandomKey{2}, options),
          std::move(added)};
}
Conv2dWithStatistics run(const Case& c, const Operands& t) {
  return conv2d_with_statistics(t.x, t.weight, t.bias, c.options);
}

/// Sums of d = y - shift and of its squares run over up to 256 pixels in float32 and so are off by
/// up to 256 u times what they would be of |d|. Of normal numbers, with a shift that is the mean of
/// a few, the mean of |d| is below 2 deviations, and that of its squares below 4 variances.
constexpr double kRounding = 256 * 0x1p-24;

void check_statistics(const Conv2dWithStatistics& got) {
  const auto y = got.y.to_vector<float>();
  const auto mean = got.mean.to_vector<double>(), variance = got.variance.to_vector<double>();
  const size_t channels = mean.size(), pixels = y.size() / channels;
  REQUIRE(variance.size() == channels);
  int wrong = 0;
  for (size_t c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < pixels; ++i) sum += static_cast<double>(y[i * channels + c]);
    const double exact = sum / static_cast<double>(pixels);
    for (size_t i = 0; i < pixels; ++i)
      squares += std::pow(static_cast<double>(y[i * channels + c]) - exact, 2);
    const double expected = squares / static_cast<double>(pixels);
    if (!(std::abs(mean[c] - exact) <= 2 * kRounding * std::sqrt(expected) + 1e-15)) ++wrong;
    if (!(std::abs(variance[c] - expected) <= 2 * 4 * kRounding * expected)) ++wrong;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("conv2d_with_statistics: y has the bits of conv2d, the statistics are those of y") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const Operands t = operands_of(c);
    const Conv2dWithStatistics got = run(c, t);
    CHECK(testing::bit_difference(got.y, conv2d(t.x, t.weight, t.bias, c.options)) == "");
    check_statistics(got);
  }
}

TEST_CASE("conv2d_with_statistics: all ways to gather them are among the cases") {
  int depthwise = 0, tiles_of_four = 0, tiles_of_two = 0, pointwise = 0, neither = 0;
  for (const Case& c : kCases) {
    const ConvShape z(c.x, c.weight, conv2d_shape(c.x, c.weight, c.options), c.options);
    if (cpu::depthwise_gathers_statistics(z))
      ++depthwise;
    else if (const int tile = cpu::winograd::outputs_of_tile(z, ConvPass::forward); tile > 0)
      ++(tile == 4 ? tiles_of_four : tiles_of_two);
    else if (cpu::pointwise::suits(z, ConvPass::forward))
      ++pointwise;
    else
      ++neither;
  }
  CHECK(depthwise == 3);
  CHECK(tiles_of_four == 2);
  CHECK(tiles_of_two == 1);
  CHECK(pointwise == 4);
  CHECK(neither == 3);
}

TEST_CASE("conv2d_with_statistics: a mean far beyond the deviation costs no digits") {
  for (const Case& c : {kCases[1], kCases[4], kCases[7], kCases[12]}) {
    CAPTURE(c.name);
    check_statistics(run(c, operands_of(c, /*bias=*/1e5)));
  }
}

// With x far from zero, pixels at a padded border are unlike all others.
TEST_CASE("conv2d_with_statistics: long rows, and borders, cost no digits") {
  const TensorOptions options{.dtype = Dtype::float32};
  for (const int64_t width : {250, 5000}) {
    CAPTURE(width);
    const Tensor x = add(normal({1, 2, width, 16}, 0.01, RandomKey{1}, options), ones({16}));
    const Tensor weight = ones({16, 1, 3, 1}, options);
    check_statistics(conv2d_with_statistics(x, weight, {}, {.padding = {0, 1}, .groups = 16}));
  }
}

TEST_CASE("conv2d_with_statistics: bits do not depend on the number of threads") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const Operands t = operands_of(c);
    const Conv2dWithStatistics all = run(c, t);
    const int threads = num_threads();
    for (const int fewer_or_more : {1, 3, 5}) {
      set_num_threads(fewer_or_more);
      const Conv2dWithStatistics again = run(c, t);
      set_num_threads(threads);
      CHECK(testing::bit_difference(again.mean, all.mean) == "");
      CHECK(testing::bit_difference(again.variance, all.variance) == "");
    }
  }
}

TEST_CASE("conv2d_with_statistics: an empty batch has zeros") {
  const Conv2dWithStatistics got =
      conv2d_with_statistics(zeros({0, 8, 8, 16}), zeros({16, 1, 1, 16}), {});
  CHECK(got.y.shape() == Shape{0, 8, 8, 16});
  CHECK(got.mean.to_vector<double>() == std::vector<double>(16, 0.0));
  CHECK(got.variance.to_vector<double>() == std::vector<double>(16, 0.0));
}

TEST_CASE("conv2d_with_statistics: in float64 they are those of the norm's kernel") {
  const Tensor x = normal({2, 8, 8, 16}, 1, RandomKey{1}, {.dtype = Dtype::float64});
  const Tensor weight = normal({16, 1, 1, 16}, 1, RandomKey{2}, {.dtype = Dtype::float64});
  const Conv2dWithStatistics got = conv2d_with_statistics(x, weight, {});
  Tensor mean = empty_like(got.mean), variance = empty_like(got.mean);
  launch(kernel::batch_norm_statistics, Dtype::float64, {got.y}, {mean, variance});
  CHECK(testing::bit_difference(got.mean, mean) == "");
  CHECK(testing::bit_difference(got.variance, variance) == "");
}

TEST_CASE("conv2d_with_statistics: halves leave them to the norm") {
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
    const Tensor x = normal({2, 8, 8, 16}, 1, RandomKey{1}, {.dtype = dtype});
    const Tensor weight = normal({16, 1, 1, 16}, 1, RandomKey{2}, {.dtype = dtype});
    const Conv2dWithStatistics got = conv2d_with_statistics(x, weight, {});
    CHECK(!got.mean.defined());
    CHECK(!got.variance.defined());
    CHECK(testing::bit_difference(got.y, conv2d(x, weight, {})) == "");
  }
}

namespace {

struct Step {
  Tensor y, dx, dweight, dscale, dshift, mean, var;
};

/// Convolution, norm and backward, with the statistics of the convolution or without.
Step step(const Case& c, bool with_statistics) {
  Operands t = operands_of(c);
  const int64_t channels = c.weight[0];
  const TensorOptions options{.dtype = Dtype::float32};
  Tensor scale = uniform({channels}, 0.5, 2, RandomKey{4}, options);
  Tensor shift = uniform({channels}, -1, 1, RandomKey{5}, options);
  for (Tensor* leaf : {&t.x, &t.weight, &scale, &shift}) leaf->set_requires_grad();
  Tensor mean = zeros({channels}, options), var = ones({channels}, options);
  Conv2dWithStatistics z;
  if (with_statistics)
    z = run(c, t);
  else
    z.y = conv2d(t.x, t.weight, t.bias, c.options);
  Tensor y = batch_norm(z.y, scale, shift, mean, var,
                        {.activation = Activation::relu, .mean = z.mean, .variance = z.variance});
  backward(y, {.grad = normal(y.shape(), 1, RandomKey{6}, options)});
  return {y.detach(), t.x.grad(), t.weight.grad(), scale.grad(), shift.grad(), mean, var};
}

}  // namespace

// Where the convolution's kernel leaves them to the one of the norm, they have the same bits.
TEST_CASE("batch_norm: statistics that are given are as good as its own") {
  for (const Case& c : {kCases[6], kCases[10]}) {
    CAPTURE(c.name);
    const Step own = step(c, false), given = step(c, true);
    CHECK(testing::bit_difference(given.y, own.y) == "");
    CHECK(testing::bit_difference(given.dx, own.dx) == "");
    CHECK(testing::bit_difference(given.dweight, own.dweight) == "");
    CHECK(testing::bit_difference(given.dscale, own.dscale) == "");
    CHECK(testing::bit_difference(given.dshift, own.dshift) == "");
    CHECK(testing::bit_difference(given.mean, own.mean) == "");
    CHECK(testing::bit_difference(given.var, own.var) == "");
  }
}

TEST_CASE("batch_norm: statistics that are given may be views") {
  const TensorOptions wide{.dtype = Dtype::float64};
  const Tensor x = normal({4, 3}, 1, RandomKey{1}, {.dtype = Dtype::float32}), one = ones({3});
  const Tensor both = uniform({6}, 0.5, 2, RandomKey{2}, wide);
  const Tensor mean = slice(both, 0, {.step = 2}),
               variance = slice(both, 0, {.begin = 1, .step = 2});
  Tensor moved = zeros({3}), var = ones({3}), moved_too = zeros({3}), var_too = ones({3});
  const Tensor plain =
      batch_norm(x, one, one, moved, var, {.mean = clone(mean), .variance = clone(variance)});
  const Tensor view =
      batch_norm(x, one, one, moved_too, var_too, {.mean = mean, .variance = variance});
  CHECK(testing::bit_difference(view, plain) == "");
  CHECK(testing::bit_difference(moved_too, moved) == "");
  CHECK(testing::bit_difference(var_too, var) == "");
}

TEST_CASE("batch_norm: under autocast, statistics that are given leave the residual cast") {
  const TensorOptions single{.dtype = Dtype::float32};
  const Tensor x = normal({2, 8, 8, 16}, 1, RandomKey{1}, single), one = ones({16});
  const Conv2dWithStatistics z =
      conv2d_with_statistics(x, normal({16, 1, 1, 16}, 1, RandomKey{2}, single), {});
  const Tensor residual =
      convert_to(normal(z.y.shape(), 1, RandomKey{3}, single), {.dtype = Dtype::bfloat16});
  Autocast autocast(Dtype::bfloat16);
  const Tensor y = batch_norm(z.y, one, one, {}, {},
                              {.residual = residual, .mean = z.mean, .variance = z.variance});
  CHECK(y.dtype() == Dtype::float32);
}

TEST_CASE("batch_norm: statistics that are given in evaluation are not used") {
  const TensorOptions wide{.dtype = Dtype::float64};
  Tensor x = normal({4, 3}, 1, RandomKey{1}, {.dtype = Dtype::float32}), one = ones({3});
  const Tensor plain = batch_norm(x, one, one, one, one, {.training = false});
  const Tensor given =
      batch_norm(x, one, one, one, one,
                 {.training = false, .mean = full({3}, 9, wide), .variance = full({3}, 9, wide)});
  CHECK(testing::bit_difference(given, plain) == "");
}

}  // namespace brim
