#include "brim/ops/argmax.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/op.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

// Along the middle one of three axes.
Tensor reference(const Tensor& x, bool keepdim) {
  std::vector<double> values = x.to_vector<double>();
  std::vector<int64_t> winners;
  int64_t outer = x.size(0), rows = x.size(1), inner = x.size(2);
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t k = 0; k < inner; ++k) {
      int64_t best = 0;
      auto at = [&](int64_t j) { return values[static_cast<size_t>((i * rows + j) * inner + k)]; };
      for (int64_t j = 1; j < rows; ++j)
        if (at(j) > at(best)) best = j;
      winners.push_back(best);
    }
  return from_vector(winners, keepdim ? Shape{outer, 1, inner} : Shape{outer, inner});
}

OpSample sample(const char* name, const Shape& shape, int axis, bool keepdim = false) {
  // Whole numbers that differ along the axis: no rounding changes their order.
  std::vector<double> values;
  int64_t rows = shape[1];
  for (int64_t i = 0; i < numel(shape); ++i)
    values.push_back(static_cast<double>((i / shape[2] * 5 + i % shape[2] * 2) % rows));
  return {
      .name = name,
      .inputs = {from_vector(values, shape)},
      .run = [=](const Tensors& in) { return Tensors{argmax(in[0], axis, {.keepdim = keepdim})}; },
      .reference = [=](const Tensors& in) { return Tensors{reference(in[0], keepdim)}; },
      .differentiable = false,
      .batched = {0}};
}

}  // namespace

TEST_CASE("argmax: spec") {
  check_op(
      {.op = "argmax",
       .samples = {sample("middle", {2, 7, 3}, 1), sample("kept", {2, 7, 3}, -2, true),
                   sample("last", {4, 9, 1}, 1), sample("many columns", {1, 3, 600}, 1)},
       .errors = {{[] {
                     argmax(ones({2, 3}), 2);
                   },
                   "argmax: axis 2 is out of range for 2 dimensions"},
                  {[] {
                     argmax(ones({2, 0}), 1);
                   },
                   "argmax: expected at least one element along axis 1, got [2,0]"},
                  {[] { argmax(arange(3), 0); }, "argmax: expected a floating dtype, got int64"}}});
}

TEST_CASE("argmax: of equal values the first, of NaN the first") {
  Tensor x = from_vector<float>({1, 4, 4, 5, NAN, NAN}, {2, 3});
  CHECK(argmax(x, 1).to_vector<int64_t>() == std::vector<int64_t>{1, 1});
  CHECK(argmax(x, 0).to_vector<int64_t>() == std::vector<int64_t>{1, 1, 1});
}

TEST_CASE("argmax: is not recorded") {
  Tensor x = ones({2, 3}).set_requires_grad();
  CHECK_FALSE(argmax(x, 1).requires_grad());
}

}  // namespace brim
