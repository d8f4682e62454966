#include "brim/ops/argmax.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "brim/autograd/op.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

// The place of the largest among the elements along `axes`, or of the first NaN, for each
// combination of the others; none means all.
Tensor reference(const Tensor& x, std::vector<int> axes, bool keepdim) {
  for (int& axis : axes) axis += axis < 0 ? x.dim() : 0;
  auto goes = [&](int axis) { return axes.empty() || std::ranges::count(axes, axis) > 0; };
  Shape shape;
  for (int axis = 0; axis < x.dim(); ++axis)
    if (!goes(axis) || keepdim) shape.push_back(goes(axis) ? 1 : x.size(axis));
  struct Group {
    int64_t seen = 0, winner = 0;
    double largest = -INFINITY;
  };
  std::map<std::vector<int64_t>, Group> groups;  // by the kept coordinates, in row-major order
  std::vector<double> values = x.to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    std::vector<int64_t> kept;
    for (int axis = x.dim() - 1; axis >= 0; --axis) {
      if (!goes(axis)) kept.insert(kept.begin(), rest % x.size(axis));
      rest /= x.size(axis);
    }
    Group& group = groups[kept];
    if (values[i] > group.largest || (std::isnan(values[i]) && !std::isnan(group.largest))) {
      group.largest = values[i];
      group.winner = group.seen;
    }
    ++group.seen;
  }
  std::vector<int64_t> winners;
  for (const auto& [kept, group] : groups) winners.push_back(group.winner);
  return from_vector(winners, shape);
}

OpSample sample(const char* name, const Shape& shape, const std::vector<int>& axes,
                bool keepdim = false) {
  // Whole numbers that every dtype has, and that differ along the axes: 257 is prime and divides no
  // distance between two of them. No rounding changes their order.
  std::vector<double> values;
  for (int64_t i = 0; i < numel(shape); ++i) values.push_back(static_cast<double>(i * 57 % 257));
  return {
      .name = name,
      .inputs = {from_vector(values, shape)},
      .run = [=](const Tensors& in) { return Tensors{argmax(in[0], axes, {.keepdim = keepdim})}; },
      .reference = [=](const Tensors& in) { return Tensors{reference(in[0], axes, keepdim)}; },
      .differentiable = false};
}

OpSample batched(OpSample sample) {
  sample.batched = {0};
  return sample;
}

}  // namespace

TEST_CASE("argmax: spec") {
  check_op(
      {.op = "argmax",
       .samples = {batched(sample("middle", {2, 7, 3}, {1})),
                   batched(sample("kept", {2, 7, 3}, {-2}, true)),
                   batched(sample("last", {4, 9}, {1})),
                   batched(sample("many columns", {1, 3, 600}, {1})), sample("all", {2, 7, 3}, {}),
                   sample("all, kept", {2, 7, 3}, {}, true), sample("scalar", {}, {}),
                   batched(sample("two axes", {2, 5, 3, 4}, {2, 1})),
                   sample("two axes, apart", {2, 5, 3, 4}, {0, -2}),
                   sample("two axes, apart, kept", {2, 5, 3, 4}, {1, 3}, true)},
       .errors = {{[] {
                     argmax(ones({2, 3}), {2});
                   },
                   "argmax: axis 2 is out of range for 2 dimensions"},
                  {[] {
                     argmax(ones({2, 0}), {1});
                   },
                   "argmax: expected at least one element along axis 1, got [2,0]"},
                  {[] {
                     argmax(ones({2, 3}), {1, -1});
                   },
                   "argmax: axis -1 is named twice"},
                  {[] { argmax(arange(3)); }, "argmax: expected a floating dtype, got int64"}}});
}

TEST_CASE("argmax: of equal values the first, of NaN the first") {
  Tensor x = from_vector<float>({1, 4, 4, 5, NAN, NAN}, {2, 3});
  CHECK(argmax(x, {1}).to_vector<int64_t>() == std::vector<int64_t>{1, 1});
  CHECK(argmax(x, {0}).to_vector<int64_t>() == std::vector<int64_t>{1, 1, 1});
  CHECK(argmax(x).item<int64_t>() == 4);
}

TEST_CASE("argmax: is not recorded") {
  Tensor x = ones({2, 3}).set_requires_grad();
  CHECK_FALSE(argmax(x, {1}).requires_grad());
}

}  // namespace brim
