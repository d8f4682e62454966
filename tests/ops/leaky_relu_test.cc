#include "brim/ops/leaky_relu.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/tests/support/unary_samples.h"

namespace brim {
namespace {

std::vector<OpSample> samples(const char* name, double slope) {
  return testing::unary_samples(
      {.op = [=](Tensor x) { return leaky_relu(std::move(x), {.negative_slope = slope}); },
       .formula = [=](double x) { return x > 0 ? x : slope * x; },
       .kinks = {0},
       .name = name});
}

}  // namespace

TEST_CASE("leaky_relu: spec") {
  OpSpec spec{.op = "leaky_relu",
              .samples = samples("slope 0.1, ", 0.1),
              .errors = {{[] { leaky_relu(zeros({2}, {.dtype = Dtype::int32})); },
                          "leaky_relu: expected a floating dtype, got int32"}}};
  for (OpSample& sample : samples("slope 0, ", 0)) spec.samples.push_back(std::move(sample));
  // Here the input is saved, as y is never negative.
  for (OpSample& sample : samples("slope -0.5, ", -0.5)) spec.samples.push_back(std::move(sample));
  check_op(spec);
}

TEST_CASE("leaky_relu: the gradient at 0 is that below; NaN stays NaN") {
  for (float slope : {0.25f, -0.25f}) {
    CAPTURE(slope);
    auto [y, dx] = testing::unary_at({-INFINITY, -4, 0, 4}, [=](Tensor x) {
      return leaky_relu(std::move(x), {.negative_slope = slope});
    });
    CHECK(y == std::vector<float>{-INFINITY * slope, -4 * slope, 0, 4});
    CHECK(dx == std::vector<float>{slope, slope, slope, 1});
  }
  CHECK(std::isnan(leaky_relu(full({}, NAN)).item<float>()));
}

TEST_CASE("leaky_relu: the output is saved where it tells the sign of the input") {
  Tensor x = ones({3}).set_requires_grad(), y = leaky_relu(x);
  CHECK(x.storage()->tape_holds() == 0);
  CHECK(y.storage()->tape_holds() == 1);
  Tensor z = leaky_relu(x, {.negative_slope = -1});
  CHECK(x.storage()->tape_holds() == 1);
}

}  // namespace brim
