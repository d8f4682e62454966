#include "brim/ops/softmax.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensors reference(const Tensors& in, int axis) {
  const Shape& shape = in[0].shape();
  std::vector<double> x = in[0].to_vector<double>(), y(x.size());
  int64_t inner = 1;
  for (int i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  for (int64_t e = 0; e < in[0].numel(); ++e) {
    int64_t first = e - e / inner % shape[axis] * inner;
    const auto along = [&](int64_t j) { return x[static_cast<size_t>(first + j * inner)]; };
    double most = along(0), sum = 0;
    for (int64_t j = 1; j < shape[axis]; ++j) most = std::max(most, along(j));
    for (int64_t j = 0; j < shape[axis]; ++j) sum += std::exp(along(j) - most);
    y[static_cast<size_t>(e)] = std::exp(x[static_cast<size_t>(e)] - most) / sum;
  }
  return {from_vector(y, shape)};
}

OpSample sample(const char* name, const Shape& shape, int axis) {
  return {
      .name = name,
      .inputs = {uniform(shape, 1, 7, RandomKey{1}, {.dtype = Dtype::float64})},
      .run = [axis](const Tensors& in) { return Tensors{softmax(in[0], axis)}; },
      .reference = [axis, rank = shape.size()](
                       const Tensors& in) { return reference(in, axis < 0 ? axis + rank : axis); },
      .reduction = shape[axis < 0 ? axis + shape.size() : axis]};
}

OpSample batched(OpSample sample) {
  sample.batched = {0};
  return sample;
}

}  // namespace

TEST_CASE("softmax: spec") {
  check_op(
      {.op = "softmax",
       .samples = {batched(sample("classes", {4, 7}, -1)), sample("vector", {9}, 0),
                   sample("outer axis", {5, 3, 4}, 0), batched(sample("channels", {2, 3, 37}, 1)),
                   sample("one", {3, 1}, -1), sample("empty axis", {3, 0}, 1)},
       .errors = {{[] { softmax(zeros({2}, {.dtype = Dtype::int64})); },
                   "softmax: expected a floating dtype, got int64"},
                  {[] {
                     softmax(zeros({2, 3}), 2);
                   },
                   "softmax: "}}});
}

TEST_CASE("softmax: stable for large values, and -inf is a chance of 0") {
  const float inf = INFINITY;
  auto y = softmax(from_vector<float>({1e30f, 1e30f, -1e30f, -inf, 0, -inf, 0, 0}, {2, 4}))
               .to_vector<float>();
  CHECK(y == std::vector<float>{0.5f, 0.5f, 0, 0, 1.0f / 3, 0, 1.0f / 3, 1.0f / 3});
  for (float v : softmax(full({2}, -inf)).to_vector<float>()) CHECK(std::isnan(v));
}

}  // namespace brim
