#include "brim/ops/mean.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/tests/support/op_spec.h"
#include "brim/tests/support/sum_reference.h"

namespace brim {
namespace {

Tensor reference(const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  auto [total, terms] = testing::sum_reference(x, axes, keepdim);
  std::vector<double> values = total.to_vector<double>();
  for (double& value : values) value /= static_cast<double>(terms);
  return from_vector(values, total.shape());
}

OpSample sample(const char* name, const Shape& shape, std::vector<int> axes, bool keepdim = false) {
  Tensor x = uniform(shape, -1, 2, RandomKey{1}, {.dtype = Dtype::float64});
  return {
      .name = name,
      .inputs = {x},
      .run = [=](const Tensors& in) { return Tensors{mean(in[0], axes, {.keepdim = keepdim})}; },
      .reference = [=](const Tensors& in) { return Tensors{reference(in[0], axes, keepdim)}; },
      .reduction = testing::sum_reference(x, axes, keepdim).terms,
      .backward_reduction = 1};
}

}  // namespace

TEST_CASE("mean: spec") {
  Tensor x = ones({2, 3});
  check_op(
      {.op = "mean",
       .samples = {sample("all", {2, 3, 5, 4}, {}), sample("pixels", {2, 3, 5, 4}, {1, 2}, true),
                   sample("channels", {2, 3, 5, 4}, {0, 1, 2}), sample("last", {6, 300}, {1}),
                   sample("alternating", {2, 3, 4, 5}, {0, 2}), sample("scalar", {}, {})},
       .errors = {{[=] { mean(x, {2}); }, "mean: axis 2 is out of range for 2 dimensions"},
                  {[=] {
                     mean(x, {1, 1});
                   },
                   "mean: axis 1 is named twice"},
                  {[] { mean(arange(3)); }, "mean: expected a floating dtype, got int64"}}});
}

TEST_CASE("mean: of nothing is NaN") { CHECK(std::isnan(mean(ones({0})).item<float>())); }

TEST_CASE("mean: divides before it rounds to float16") {
  // The sum, 200,000, is beyond float16.
  Tensor x = full({200, 1000}, 1, {.dtype = Dtype::float16});
  CHECK(mean(x).item<float>() == 1);
}

}  // namespace brim
