#include "brim/ops/hardsigmoid.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/tests/support/unary_samples.h"

namespace brim {

TEST_CASE("hardsigmoid: spec") {
  check_op({.op = "hardsigmoid",
            .samples = testing::unary_samples(
                {.op = [](Tensor x) { return hardsigmoid(std::move(x)); },
                 .formula = [](double x) { return std::clamp((x + 3) / 6, 0.0, 1.0); },
                 .low = -5,
                 .high = 5,
                 .kinks = {-3, 3}}),
            .errors = {{[] { hardsigmoid(zeros({2}, {.dtype = Dtype::int8})); },
                        "hardsigmoid: expected a floating dtype, got int8"}}});
}

TEST_CASE("hardsigmoid: no gradient at -3, at 3, and beyond; NaN stays NaN") {
  auto [y, dx] = testing::unary_at({-INFINITY, -4, -3, 0, 3, INFINITY},
                                   [](Tensor x) { return hardsigmoid(std::move(x)); });
  CHECK(y == std::vector<float>{0, 0, 0, 0.5f, 1, 1});
  CHECK(dx == std::vector<float>{0, 0, 0, 1 / 6.0f, 0, 0});
  CHECK(std::isnan(hardsigmoid(full({}, NAN)).item<float>()));
}

}  // namespace brim
