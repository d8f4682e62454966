#include "brim/ops/sqrt.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/tests/support/unary_samples.h"

namespace brim {

TEST_CASE("sqrt: spec") {
  auto op = [](Tensor x) { return sqrt(std::move(x)); };
  std::vector<OpSample> samples = testing::unary_samples(
      {.op = op, .formula = [](double x) { return std::sqrt(x); }, .low = 0.1, .high = 4});
  check_op({.op = "sqrt",
            .samples = samples,
            .errors = {{[] { sqrt(zeros({2}, {.dtype = Dtype::int32})); },
                        "sqrt: expected a floating dtype, got int32"}}});
}

TEST_CASE("sqrt: an infinite gradient at 0, NaN below") {
  auto [y, dx] =
      testing::unary_at({0, 4, INFINITY, -1}, [](Tensor x) { return sqrt(std::move(x)); });
  CHECK(std::vector<float>(y.begin(), y.begin() + 3) == std::vector<float>{0, 2, INFINITY});
  CHECK(std::vector<float>(dx.begin(), dx.begin() + 3) == std::vector<float>{INFINITY, 0.25f, 0});
  CHECK(std::isnan(y[3]));
  CHECK(std::isnan(dx[3]));
}

}  // namespace brim
