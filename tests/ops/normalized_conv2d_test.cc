// A convolution that normalises its input on the way is the two ops that it is made of.
#include "brim/ops/normalized_conv2d.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "brim/autograd/backward.h"
#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/ops/autocast.h"
#include "brim/ops/conv_slices.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/support/launched_kernels.h"
#include "brim/tests/support/normalized_conv2d_cases.h"

namespace brim {
namespace {

using testing::AtOnce;
using Case = testing::NormalizedConv2dCase;
const auto& kCases = testing::kNormalizedConv2dCases;

const Case& named(std::string_view name) {
  const Case* found = std::ranges::find(kCases, name, &Case::name);
  REQUIRE(found != std::end(kCases));
  return *found;
}

/// Leaves, and the running statistics.
struct Operands {
  Tensor x, gain, shift, weight, bias, running_mean, running_var, dy;

  explicit Operands(const Case& c, Dtype dtype = Dtype::float32) {
    const TensorOptions options{.dtype = dtype};
    const Shape channels{c.x[3]};
    x = normal(c.x, 2, RandomKey{1}, options);
    gain = uniform(channels, 0.5, 3, RandomKey{2}, options);
    shift = uniform(channels, -1, 2, RandomKey{3}, options);
    weight = normal(c.weight, 1, RandomKey{4}, options);
    if (c.bias) bias = normal({c.weight[0]}, 1, RandomKey{5}, options);
    running_mean = uniform(channels, -1, 1, RandomKey{6}, options);
    running_var = uniform(channels, 0.5, 2, RandomKey{7}, options);
    dy = normal(conv2d_shape(c.x, c.weight, c.window), 1, RandomKey{8}, options);
    for (Tensor* leaf : {&x, &gain, &shift, &weight, &bias})
      if (leaf->defined()) leaf->set_requires_grad();
  }
  /// With the statistics of x.
  BatchNormArguments norm(const Case& c) const {
    autograd::NoGradScope no_grad;
    const Shape channels{c.x[3]};
    const TensorOptions options{.dtype = Dtype::float64};
    Tensor mean = empty(channels, options), variance = empty(channels, options);
    launch(kernel::batch_norm_statistics, x.dtype(), {x}, {mean, variance});
    return {gain,
            shift,
            running_mean,
            running_var,
            {.activation = c.activation, .mean = mean, .variance = variance}};
  }
};

struct Named {
  std::string name;
  Tensor tensor;
};

/// All that a forward and a backward pass leave.
std::vector<Named> results(const Operands& t, Conv2dWithStatistics y) {
  std::vector<Named> all{{"y", y.y}, {"mean", y.mean}, {"variance", y.variance}};
  backward(std::move(y.y), {.grad = t.dy});
  for (const auto& [name, leaf] : {Named{"x", t.x},
                                   {"gain", t.gain},
                                   {"shift", t.shift},
                                   {"weight", t.weight},
                                   {"bias", t.bias}})
    if (leaf.defined()) all.push_back({"the gradient of " + name, leaf.grad()});
  all.push_back({"the running mean", t.running_mean});
  all.push_back({"the running variance", t.running_var});
  return all;
}

Conv2dWithStatistics in_two(const Case& c, const Operands& t, BatchNormArguments norm) {
  return conv2d_with_statistics(batch_norm(t.x, norm.weight, norm.bias, norm.running_mean,
                                           norm.running_var, std::move(norm.options)),
                                t.weight, t.bias, c.window);
}
Conv2dWithStatistics in_one(const Case& c, const Operands& t, BatchNormArguments norm) {
  return normalized_conv2d(t.x, std::move(norm), t.weight, t.bias, c.window);
}

/// Sanitizers find nothing in other numbers of threads that smaller images do not show.
bool is_slow(const Case& c) { return testing::is_instrumented() && numel(c.x) > int64_t{1} << 20; }

bool has_own_backward(const Case& c, const Operands& t) {
  return c.at_once() != AtOnce::none && t.x.dtype() == Dtype::float32;
}

/// The root of the sum of squares of the difference, over that of the second.
double relative_distance(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  REQUIRE(x.size() == y.size());
  double apart = 0, all = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    apart += std::pow(x[i] - y[i], 2);
    all += y[i] * y[i];
  }
  return apart == 0 ? 0 : std::sqrt(apart / all);
}

/// Of gradients that are summed in another order: up to 256 terms in float32, to the end of a row
/// of up to 112, whose errors of 2^-24 grow as the root of their number, to 2^-19.7; of one sum and
/// the other, which are as good as independent. Weight gradients by Winograd's method, whose
/// transforms have errors of their own, are 2^-20.2 apart at the most.
constexpr double kOtherOrder = 0x1p-19;

/// To the bit, but for those gradients.
void check_same(const std::vector<Named>& got, const std::vector<Named>& expected,
                bool other_order = false) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(got[i].name);
    if (other_order && got[i].name.starts_with("the gradient") && !got[i].name.ends_with("bias"))
      CHECK(relative_distance(got[i].tensor, expected[i].tensor) < kOtherOrder);
    else
      CHECK(testing::bit_difference(got[i].tensor, expected[i].tensor) == "");
  }
}

}  // namespace

TEST_CASE("normalized_conv2d: values, gradients and running statistics are those of two ops") {
  for (const Dtype dtype : {Dtype::float32, Dtype::float64})
    for (const Case& c : kCases) {
      CAPTURE(c.name);
      CAPTURE(to_string(dtype));
      const Operands one(c, dtype), two(c, dtype);
      check_same(results(one, in_one(c, one, one.norm(c))),
                 results(two, in_two(c, two, two.norm(c))), has_own_backward(c, one));
    }
}

TEST_CASE("normalized_conv2d: bits of the forward pass do not depend on the number of threads") {
  for (const Case& c : kCases) {
    if (is_slow(c)) continue;
    CAPTURE(c.name);
    const Operands t(c);
    autograd::NoGradScope no_grad;
    const Conv2dWithStatistics all = in_one(c, t, t.norm(c));
    const int threads = num_threads();
    for (const int fewer_or_more : {1, 3, 5}) {
      set_num_threads(fewer_or_more);
      const Conv2dWithStatistics again = in_one(c, t, t.norm(c));
      set_num_threads(threads);
      CHECK(testing::bit_difference(again.y, all.y) == "");
      CHECK(testing::bit_difference(again.mean, all.mean) == "");
      CHECK(testing::bit_difference(again.variance, all.variance) == "");
    }
  }
}

TEST_CASE(
    "normalized_conv2d: bits of gradients made at once do not depend on how many threads do") {
  for (const Case& c : kCases) {
    if (is_slow(c)) continue;
    const Operands all(c);
    if (!has_own_backward(c, all)) continue;
    CAPTURE(c.name);
    const std::vector<Named> expected = results(all, in_one(c, all, all.norm(c)));
    const int threads = num_threads();
    for (const int fewer_or_more : {1, 3, 5}) {
      const Operands t(c);
      const BatchNormArguments norm = t.norm(c);
      set_num_threads(fewer_or_more);
      const std::vector<Named> got = results(t, in_one(c, t, norm));
      set_num_threads(threads);
      for (size_t i = 0; i < got.size(); ++i) {
        CAPTURE(got[i].name);
        if (c.at_once() == AtOnce::all || got[i].name != "the gradient of weight")
          CHECK(testing::bit_difference(got[i].tensor, expected[i].tensor) == "");
      }
    }
  }
}

// What is not wanted is not made, and the others are what they are with it.
TEST_CASE("normalized_conv2d: any of the gradients may be wanted alone") {
  using Leaf = Tensor Operands::*;
  const Leaf leaves[] = {&Operands::x, &Operands::gain, &Operands::shift, &Operands::weight};
  for (const char* name : {"1x1", "1x1, at once", "1x1, at once, stride 2", "depthwise",
                           "depthwise stride 2", "3x3", "3x3, many filters"}) {
    const Case& c = named(name);
    CAPTURE(c.name);
    const Operands all(c);
    results(all, in_one(c, all, all.norm(c)));
    for (const Leaf wanted : leaves) {
      Operands t(c);
      t.bias = t.bias.defined() ? t.bias.detach() : Tensor();
      for (const Leaf leaf : leaves)
        if (leaf != wanted) t.*leaf = (t.*leaf).detach();
      results(t, in_one(c, t, t.norm(c)));
      for (const Leaf leaf : leaves) CHECK((t.*leaf).grad().defined() == (leaf == wanted));
      // The weight's alone is made some images at a time.
      if (wanted == &Operands::weight && has_own_backward(c, t))
        CHECK(relative_distance(t.weight.grad(), all.weight.grad()) < kOtherOrder);
      else
        CHECK(testing::bit_difference((t.*wanted).grad(), (all.*wanted).grad()) == "");
    }
  }
}

TEST_CASE(
    "normalized_conv2d: a bias alone, statistics that want a gradient, and a second backward") {
  const Case& c = named("depthwise");
  Operands alone(c), twice(c);
  const Operands all(c);
  results(all, in_one(c, all, all.norm(c)));
  for (Tensor* leaf : {&alone.x, &alone.gain, &alone.shift, &alone.weight}) *leaf = leaf->detach();
  results(alone, in_one(c, alone, alone.norm(c)));
  CHECK(testing::bit_difference(alone.bias.grad(), all.bias.grad()) == "");

  BatchNormArguments norm = twice.norm(c);
  norm.options.mean.set_requires_grad();
  norm.options.variance.set_requires_grad();
  const Tensor y = in_one(c, twice, norm).y;
  backward(y, {.grad = twice.dy, .retain_graph = true});
  const Tensor once = clone(twice.x.grad());
  CHECK(testing::bit_difference(once, all.x.grad()) == "");
  twice.x.set_grad({});
  backward(y, {.grad = twice.dy});
  CHECK(testing::bit_difference(twice.x.grad(), once) == "");
  CHECK(!norm.options.mean.grad().defined());
  CHECK(!norm.options.variance.grad().defined());
}

TEST_CASE(
    "normalized_conv2d: what is normalised is written by no forward pass, and for backward by "
    "slices") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const Operands t(c);
    const BatchNormArguments norm = t.norm(c);
    CHECK(normalizes_on_the_way(t.x, norm, t.weight, c.window) == c.on_the_way);
    testing::LaunchedKernels forward, backwards;
    Conv2dWithStatistics y;
    {
      const LaunchObserverScope scope(forward);
      y = in_one(c, t, norm);
    }
    CHECK(forward.runs_of("normalized_conv2d") == (c.on_the_way ? 1 : 0));
    CHECK(forward.runs_of("batch_norm") == (c.on_the_way ? 0 : 1));
    {
      const LaunchObserverScope scope(backwards);
      backward(std::move(y.y), {.grad = t.dy});
    }
    const ConvShape shape(c.x, c.weight, t.dy.shape(), c.window);
    const bool own = has_own_backward(c, t);
    CHECK(backwards.runs_of("normalized_conv2d_backward") == (own ? 1 : 0));
    CHECK(backwards.runs_of("batch_norm_backward") == (own ? 0 : 1));
    CHECK(backwards.runs_of("batch_norm") ==
          (c.at_once() == AtOnce::all ? 0 : ceil_div(shape.n, images_of_slice(shape))));
    if (c.name == "1x1, slices") CHECK(backwards.runs_of("batch_norm") > 2);
  }
}

TEST_CASE("normalized_conv2d: two ops with a residual, in halves, in evaluation, under autocast") {
  const Case& c = named("1x1");
  const Operands t(c), half(c, Dtype::bfloat16);
  BatchNormArguments added = t.norm(c), running = t.norm(c), low = t.norm(c);
  added.options.residual = normal(c.x, 1, RandomKey{9});
  running.options.training = false;
  CHECK(testing::bit_difference(in_one(c, t, added).y, in_two(c, t, added).y) == "");
  CHECK(testing::bit_difference(in_one(c, t, running).y, in_two(c, t, running).y) == "");
  const BatchNormArguments of_half = half.norm(c);
  CHECK(testing::bit_difference(in_one(c, half, of_half).y, in_two(c, half, of_half).y) == "");
  const Autocast autocast(Dtype::bfloat16);
  CHECK(!normalizes_on_the_way(t.x, low, t.weight, c.window));
  const Conv2dWithStatistics y = in_one(c, t, low);
  CHECK(y.y.dtype() == Dtype::bfloat16);
  CHECK(testing::bit_difference(y.y, in_two(c, t, low).y) == "");
}

}  // namespace brim
