#include "brim/ops/exp.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/tests/support/unary_samples.h"

namespace brim {

TEST_CASE("exp: spec") {
  auto op = [](Tensor x) { return exp(std::move(x)); };
  std::vector<OpSample> samples = testing::unary_samples(
      {.op = op, .formula = [](double x) { return std::exp(x); }, .low = -8, .high = 8});
  check_op({.op = "exp",
            .samples = samples,
            .errors = {{[] { exp(zeros({2}, {.dtype = Dtype::int32})); },
                        "exp: expected a floating dtype, got int32"}}});
}

TEST_CASE("exp: 0 and infinity at the ends; NaN stays NaN") {
  auto [y, dx] = testing::unary_at({-INFINITY, -200, 0, 200, INFINITY},
                                   [](Tensor x) { return exp(std::move(x)); });
  CHECK(y == std::vector<float>{0, 0, 1, INFINITY, INFINITY});
  CHECK(dx == y);
  CHECK(std::isnan(exp(full({}, NAN)).item<float>()));
}

TEST_CASE("exp: the output is saved, not the input") {
  Tensor x = ones({3}).set_requires_grad(), y = exp(x);
  CHECK(x.storage()->tape_holds() == 0);
  CHECK(y.storage()->tape_holds() == 1);
}

}  // namespace brim
