#include "brim/ops/group_norm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/base/parallel.h"
#include "brim/tests/support/group_norm_reference.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

// Inputs: x, then weight and bias where they are wanted.
OpSample sample(const char* name, const Shape& shape, int64_t groups, bool weight = true,
                bool bias = true, double epsilon = 1e-5) {
  auto random = [](const Shape& of, float low, float high, uint64_t key) {
    return uniform(of, low, high, RandomKey{key}, {.dtype = Dtype::float64});
  };
  auto part = [=](const Tensors& in, bool wanted, size_t i) { return wanted ? in[i] : Tensor(); };
  OpSample sample{
      .name = name,
      .inputs = {random(shape, -1, 3, 1)},
      .run =
          [=](const Tensors& in) {
            return Tensors{group_norm(in[0], groups, part(in, weight, 1),
                                      part(in, bias, weight ? 2 : 1), {.epsilon = epsilon})};
          },
      .reference =
          [=](const Tensors& in) {
            int64_t pixels = 1;
            for (int axis = 1; axis + 1 < in[0].dim(); ++axis) pixels *= in[0].size(axis);
            return testing::group_norm_reference(in[0], in[0].size(0), pixels, groups,
                                                 part(in, weight, 1),
                                                 part(in, bias, weight ? 2 : 1), epsilon);
          },
      .reduction = numel(shape) / shape[0] / groups,
      .backward_reduction = std::max(numel(shape) / shape.back(), numel(shape) / shape[0] / groups),
      .batched = {0},
      .wide = {1, 2}};
  Shape channels{shape.back()};
  if (weight) sample.inputs.push_back(random(channels, 0.5, 3, 2));
  if (bias) sample.inputs.push_back(random(channels, -1, 2, 3));
  return sample;
}

std::vector<float> bits(const Shape& shape, int64_t groups) {
  Tensor x = uniform(shape, -1, 3, RandomKey{1}).set_requires_grad();
  Tensor weight = uniform({shape.back()}, 0.5, 3, RandomKey{2}).set_requires_grad();
  Tensor bias = uniform({shape.back()}, -1, 1, RandomKey{3}).set_requires_grad();
  Tensor y = group_norm(x, groups, weight, bias);
  backward(y, {.grad = uniform(shape, -1, 1, RandomKey{4})});
  std::vector<float> all = y.to_vector<float>();
  for (const Tensor& t : {x, weight, bias})
    for (float value : t.grad().to_vector<float>()) all.push_back(value);
  return all;
}

}  // namespace

TEST_CASE("group_norm: spec") {
  auto call = [](const Shape& x, int64_t groups, const Shape& channels, double epsilon = 1e-5) {
    return
        [=] { group_norm(ones(x), groups, ones(channels), ones(channels), {.epsilon = epsilon}); };
  };
  check_op({.op = "group_norm",
            .samples = {sample("images", {2, 3, 5, 6}, 2), sample("one group", {2, 3, 3, 4}, 1),
                        sample("a group per channel", {2, 3, 3, 4}, 4),
                        sample("features", {5, 12}, 3, true, true, 1e-3),
                        sample("wide groups", {2, 2, 2, 140}, 2),
                        sample("more groups than a unit has", {2, 3, 3, 150}, 150),
                        sample("uneven units", {2, 2, 2, 144}, 6),
                        sample("many pixels", {2, 11, 13, 3}, 3),
                        sample("pieces of wide groups", {1, 16, 16, 64}, 2),
                        sample("pieces of narrow groups", {1, 33, 32, 6}, 2),
                        sample("no bias", {2, 3, 3, 4}, 2, true, false),
                        sample("no weight", {2, 3, 3, 4}, 2, false, true),
                        sample("neither", {2, 3, 3, 4}, 2, false, false)},
            .errors = {{call({2, 3, 4}, 3, {4}),
                        "group_norm: expected channels that 3 groups divide, got input [2,3,4]"},
                       {call({2, 3, 4}, 0, {4}), "group_norm: expected at least one group, got 0"},
                       {call({4}, 2, {4}),
                        "group_norm: expected samples with channels [N,...,C], got [4]"},
                       {call({2, 4}, 2, {3}),
                        "group_norm: expected weight of shape [4] for input [2,4], got [3]"},
                       {call({2, 4}, 2, {4}, 0), "group_norm: expected a positive epsilon, got 0"},
                       {[] {
                          group_norm(ones({2, 4}), 2, {}, ones({4}, {.dtype = Dtype::float64}));
                        },
                        "group_norm: expected bias of float32, got float64"},
                       {[] {
                          group_norm(zeros({2, 4}, {.dtype = Dtype::int32}), 2, {}, {});
                        },
                        "group_norm: expected a floating dtype, got int32"}}});
}

TEST_CASE("group_norm: a mean far beyond the deviation costs no digits") {
  // x - 10000 is known to 2^-11 here; the reference sees the same rounded values.
  for (int64_t groups : {1, 2, 8}) {
    CAPTURE(groups);
    Shape shape{2, 40, 50, 128};
    std::vector<double> x = normal(shape, 1, RandomKey{9}).to_vector<double>();
    for (double& value : x) value = static_cast<float>(value + 1e4);
    Tensor exact = from_vector(x, shape);
    auto expected =
        testing::group_norm_reference(exact, 2, 2000, groups, {}, {}, 1e-5)[0].to_vector<double>();
    auto y = group_norm(convert_to(exact, {}), groups, {}, {}).to_vector<double>();
    double worst = 0;
    for (size_t i = 0; i < y.size(); ++i)
      worst = std::max(worst, std::abs(y[i] - expected[i]) / (1 + std::abs(expected[i])));
    // x - mean, the inverse deviation, its product and the shift are rounded once each, to half an
    // epsilon of numbers of that size; the statistics' own sums, of deviations, are off by less.
    CHECK(worst < 4 * epsilon(Dtype::float32));
  }
}

TEST_CASE("group_norm: results do not depend on the number of threads") {
  for (int64_t groups : {1, 4, 32}) {
    CAPTURE(groups);
    int threads = num_threads();
    set_num_threads(1);
    std::vector<float> one = bits({3, 20, 20, 128}, groups);
    set_num_threads(3);
    std::vector<float> three = bits({3, 20, 20, 128}, groups);
    set_num_threads(threads);
    CHECK(one == three);
  }
}

TEST_CASE("group_norm: a group of one value is its bias") {
  Tensor y = group_norm(full({2, 3}, 7), 3, ones({3}), from_vector<float>({1, 2, 3}, {3}));
  CHECK(y.to_vector<float>() == std::vector<float>{1, 2, 3, 1, 2, 3});
}

}  // namespace brim
