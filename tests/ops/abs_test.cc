#include "brim/ops/abs.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/tests/support/unary_samples.h"

namespace brim {

TEST_CASE("abs: spec") {
  auto op = [](Tensor x) { return abs(std::move(x)); };
  std::vector<OpSample> samples = testing::unary_samples(
      {.op = op, .formula = [](double x) { return x < 0 ? -x : x; }, .kinks = {0}});
  check_op({.op = "abs",
            .samples = samples,
            .errors = {{[] { abs(zeros({2}, {.dtype = Dtype::int32})); },
                        "abs: expected a floating dtype, got int32"}}});
}

TEST_CASE("abs: no gradient at 0; NaN stays NaN") {
  auto [y, dx] =
      testing::unary_at({-INFINITY, -2, -0.0f, 0, 3}, [](Tensor x) { return abs(std::move(x)); });
  CHECK(y == std::vector<float>{INFINITY, 2, 0, 0, 3});
  CHECK(dx == std::vector<float>{-1, -1, 0, 0, 1});
  CHECK(!std::signbit(y[2]));
  CHECK(std::isnan(abs(full({}, NAN)).item<float>()));
}

}  // namespace brim
