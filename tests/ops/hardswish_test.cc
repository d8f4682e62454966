#include "brim/ops/hardswish.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/tests/support/unary_samples.h"

namespace brim {

TEST_CASE("hardswish: spec") {
  check_op({.op = "hardswish",
            .samples = testing::unary_samples(
                {.op = [](Tensor x) { return hardswish(std::move(x)); },
                 .formula = [](double x) { return x * std::clamp((x + 3) / 6, 0.0, 1.0); },
                 .low = -5,
                 .high = 5,
                 .kinks = {-3, 3}}),
            .errors = {{[] { hardswish(zeros({2}, {.dtype = Dtype::int8})); },
                        "hardswish: expected a floating dtype, got int8"}}});
}

TEST_CASE("hardswish: slopes up to -3 and from 3 on; NaN stays NaN, in the gradient too") {
  auto [y, dx] =
      testing::unary_at({-4, -3, 0, 3, INFINITY}, [](Tensor x) { return hardswish(std::move(x)); });
  CHECK(y == std::vector<float>{0, 0, 0, 3, INFINITY});
  CHECK(dx == std::vector<float>{0, 0, 0.5f, 1, 1});
  testing::UnaryResult nan =
      testing::unary_at({NAN}, [](Tensor x) { return hardswish(std::move(x)); });
  CHECK(std::isnan(nan.y[0]));
  CHECK(std::isnan(nan.dx[0]));
}

}  // namespace brim
