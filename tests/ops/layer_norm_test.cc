#include "brim/ops/layer_norm.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/base/parallel.h"
#include "brim/ops/group_norm.h"
#include "brim/tests/support/group_norm_reference.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

OpSample sample(const char* name, const Shape& shape, const Shape& normalized, bool weight = true,
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
            return Tensors{layer_norm(in[0], normalized, part(in, weight, 1),
                                      part(in, bias, weight ? 2 : 1), {.epsilon = epsilon})};
          },
      .reference =
          [=](const Tensors& in) {
            return testing::group_norm_reference(in[0], in[0].numel() / numel(normalized), 1, 1,
                                                 part(in, weight, 1),
                                                 part(in, bias, weight ? 2 : 1), epsilon);
          },
      .reduction = numel(normalized),
      .backward_reduction = std::max(numel(normalized), numel(shape) / numel(normalized)),
      .wide = {1, 2}};
  if (normalized.size() < shape.size()) sample.batched = {0};
  if (weight) sample.inputs.push_back(random(normalized, 0.5, 3, 2));
  if (bias) sample.inputs.push_back(random(normalized, -1, 2, 3));
  return sample;
}

}  // namespace

TEST_CASE("layer_norm: spec") {
  check_op({.op = "layer_norm",
            .samples = {sample("tokens", {2, 3, 7}, {7}), sample("wide", {3, 200}, {200}),
                        sample("two axes", {4, 3, 5}, {3, 5}), sample("all axes", {3, 5}, {3, 5}),
                        sample("many rows", {150, 4}, {4}, true, true, 1e-3),
                        sample("no bias", {4, 6}, {6}, true, false),
                        sample("no weight", {4, 6}, {6}, false, true),
                        sample("neither", {4, 6}, {6}, false, false)},
            .errors = {{[] {
                          layer_norm(ones({2, 3}), {2}, {}, {});
                        },
                        "layer_norm: expected an input whose last axes are [2], got [2,3]"},
                       {[] {
                          layer_norm(ones({3}), {2, 3}, {}, {});
                        },
                        "layer_norm: expected an input whose last axes are [2,3], got [3]"},
                       {[] { layer_norm(ones({3}), {}, {}, {}); },
                        "layer_norm: expected at least one axis to normalize over"},
                       {[] {
                          layer_norm(ones({2, 3}), {3}, ones({2}), {});
                        },
                        "layer_norm: expected weight of shape [3] for input [2,3], got [2]"},
                       {[] {
                          layer_norm(ones({2, 3}), {3}, {}, {}, {.epsilon = -1});
                        },
                        "layer_norm: expected a positive epsilon, got -1"},
                       {[] { layer_norm(arange(3), {3}, {}, {}); },
                        "layer_norm: expected a floating dtype, got int64"}}});
}

TEST_CASE("layer_norm: is the group norm of one group and no pixels") {
  Tensor x = uniform({5, 96}, -1, 3, RandomKey{1}), weight = uniform({96}, 0, 2, RandomKey{2});
  Tensor bias = uniform({96}, -1, 1, RandomKey{3});
  CHECK(layer_norm(x, {96}, weight, bias).to_vector<float>() ==
        group_norm(x, 1, weight, bias).to_vector<float>());
}

TEST_CASE("layer_norm: results do not depend on the number of threads") {
  auto bits = [] {
    Tensor x = uniform({1000, 96}, -1, 3, RandomKey{1}).set_requires_grad();
    Tensor weight = uniform({96}, 0.5, 3, RandomKey{2}).set_requires_grad();
    Tensor y = layer_norm(x, {96}, weight, {});
    backward(y, {.grad = uniform(x.shape(), -1, 1, RandomKey{4})});
    return std::vector{y.to_vector<float>(), x.grad().to_vector<float>(),
                       weight.grad().to_vector<float>()};
  };
  int threads = num_threads();
  set_num_threads(1);
  auto one = bits();
  set_num_threads(3);
  auto three = bits();
  set_num_threads(threads);
  CHECK((one == three));
}

}  // namespace brim
