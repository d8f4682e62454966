#include "brim/ops/sigmoid.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/tests/support/unary_samples.h"

namespace brim {

TEST_CASE("sigmoid: spec") {
  auto op = [](Tensor x) { return sigmoid(std::move(x)); };
  std::vector<OpSample> samples = testing::unary_samples(
      {.op = op, .formula = [](double x) { return 1 / (1 + std::exp(-x)); }});
  // Where y is next to 1, what is left of 1 - y has few digits: values alone.
  for (OpSample& sample : testing::unary_samples({.op = op,
                          .formula = [](double x) { return 1 / (1 + std::exp(-x)); },
                          .low = -20,
                          .high = 20,
                          .differentiable = false,
                          .name = "far out, "}))
    samples.push_back(std::move(sample));
  check_op({.op = "sigmoid",
            .samples = samples,
            .errors = {{[] { sigmoid(zeros({2}, {.dtype = Dtype::int32})); },
                        "sigmoid: expected a floating dtype, got int32"}}});
}

TEST_CASE("sigmoid: nothing overflows, and small values are kept; NaN stays NaN") {
  auto [y, dx] = testing::unary_at({-INFINITY, -1000, 0, 1000, INFINITY},
                                   [](Tensor x) { return sigmoid(std::move(x)); });
  CHECK(y == std::vector<float>{0, 0, 0.5f, 1, 1});
  CHECK(dx == std::vector<float>{0, 0, 0.25f, 0, 0});
  CHECK(sigmoid(full({}, -87)).item<float>() > 0);
  // exp(100) overflows in float32, and the result would be subnormal.
  CHECK(sigmoid(full({}, -100)).item<float>() == 0);
  CHECK(std::isnan(sigmoid(full({}, NAN)).item<float>()));
}

}  // namespace brim
