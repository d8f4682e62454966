#include "brim/ops/max.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "brim/autograd/backward.h"
#include "brim/base/parallel.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

// The largest for each combination of the other axes; `axes` are counted from the front, none means
// all.
Tensor reference(const Tensor& x, std::vector<int> axes, bool keepdim) {
  if (axes.empty())
    for (int axis = 0; axis < x.dim(); ++axis) axes.push_back(axis);
  auto goes = [&](int axis) { return std::ranges::find(axes, axis) != axes.end(); };
  Shape shape;
  for (int axis = 0; axis < x.dim(); ++axis)
    if (!goes(axis) || keepdim) shape.push_back(goes(axis) ? 1 : x.size(axis));
  std::map<std::vector<int64_t>, double> largest;  // by the kept coordinates, in row-major order
  std::vector<double> values = x.to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    std::vector<int64_t> kept;
    for (int axis = x.dim() - 1; axis >= 0; --axis) {
      if (!goes(axis)) kept.insert(kept.begin(), rest % x.size(axis));
      rest /= x.size(axis);
    }
    auto [at, is_new] = largest.emplace(kept, values[i]);
    if (!is_new && (values[i] > at->second || std::isnan(values[i]))) at->second = values[i];
  }
  std::vector<double> result;
  for (const auto& [kept, value] : largest) result.push_back(value);
  return from_vector(result, shape);
}

OpSample sample(const char* name, const Shape& shape, std::vector<int> axes, bool keepdim = false) {
  return {.name = name,
          .inputs = {uniform(shape, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [=](const Tensors& in) { return Tensors{max(in[0], axes, {.keepdim = keepdim})}; },
          .reference = [=](const Tensors& in) { return Tensors{reference(in[0], axes, keepdim)}; }};
}

OpSample batched(OpSample sample) {
  sample.batched = {0};
  return sample;
}

// The gradient of the sum of all outputs.
std::vector<float> gradient(const std::vector<float>& values, const Shape& shape,
                            const std::vector<int>& axes) {
  Tensor x = from_vector(values, shape).set_requires_grad();
  Tensor y = max(x, axes);
  backward(y, {.grad = ones(y.shape())});
  return x.grad().to_vector<float>();
}

}  // namespace

TEST_CASE("max: spec") {
  Tensor x = ones({2, 3});
  check_op(
      {.op = "max",
       .samples = {sample("all", {2, 3, 5, 4}, {}), sample("all, kept", {2, 3, 5, 4}, {}, true),
                   batched(sample("last", {6, 30}, {1})), sample("first", {40, 7}, {0}),
                   batched(sample("pixels", {2, 3, 5, 4}, {1, 2})),
                   sample("pixels, kept", {2, 3, 5, 4}, {1, 2}, true),
                   sample("channels", {2, 3, 5, 4}, {0, 1, 2}),
                   sample("alternating", {2, 3, 4, 5, 2}, {0, 2, 4}),
                   sample("middle", {2, 1, 3, 1, 5}, {1, 2, 3}),
                   sample("an axis of one", {3, 1, 2}, {1}), sample("scalar", {}, {}),
                   sample("nothing kept", {2, 3, 0}, {0}), sample("many columns", {3, 600}, {0})},
       .errors = {
           {[=] { max(x, {2}); }, "max: axis 2 is out of range for 2 dimensions"},
           {[=] {
              max(x, {1, -1});
            },
            "max: axis -1 is named twice"},
           {[] {
              max(zeros({3, 0, 2}), {1});
            },
            "max: expected at least one element along axis 1, got [3,0,2]"},
           {[] { max(zeros({0})); }, "max: expected at least one element along axis 0, got [0]"},
           {[] { max(arange(3)); }, "max: expected a floating dtype, got int64"}}});
}

TEST_CASE("max: of equal values the first in row-major order gets the gradient") {
  CHECK(gradient({1, 3, 3, 3, 3, 0}, {2, 3}, {1}) == std::vector<float>{0, 1, 0, 1, 0, 0});
  CHECK(gradient({1, 3, 3, 1, 3, 0}, {2, 3}, {0}) == std::vector<float>{1, 1, 1, 0, 0, 0});
  CHECK(gradient({1, 3, 3, 1, 3, 0}, {2, 3}, {}) == std::vector<float>{0, 1, 0, 0, 0, 0});
  // Pixels of two channels.
  CHECK(gradient({1, 5, 2, 5, 2, 4, 0, 5}, {1, 2, 2, 2}, {1, 2}) ==
        std::vector<float>{0, 1, 1, 0, 0, 0, 0, 0});
}

TEST_CASE("max: NaN wins, the first one gets the gradient; infinities are ordinary") {
  std::vector<float> x{5, NAN, INFINITY, NAN};
  for (const Shape& shape : {Shape{1, 4}, Shape{4, 1}}) {
    int axis = shape[0] == 1 ? 1 : 0;
    CHECK(std::isnan(max(from_vector(x, shape), {axis}).item<float>()));
    CHECK(gradient(x, shape, {axis}) == std::vector<float>{0, 1, 0, 0});
  }
  CHECK(std::isnan(max(from_vector(std::vector<float>{NAN, 1}, {2})).item<float>()));
  CHECK(max(full({3}, -INFINITY)).item<float>() == -INFINITY);
}

TEST_CASE("max: has the same bits with any number of threads") {
  int before = num_threads();
  Tensor x = uniform({300, 50, 20}, -1, 1, RandomKey{3});
  for (const std::vector<int>& axes : {std::vector<int>{}, {0}, {2}, {0, 1}, {1, 2}, {0, 2}, {1}}) {
    set_num_threads(1);
    std::vector<float> one = max(x, axes).to_vector<float>();
    set_num_threads(3);
    CHECK(max(x, axes).to_vector<float>() == one);
  }
  set_num_threads(before);
}

}  // namespace brim
