#include "brim/ops/log.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/tests/support/unary_samples.h"

namespace brim {

TEST_CASE("log: spec") {
  auto op = [](Tensor x) { return log(std::move(x)); };
  std::vector<OpSample> samples = testing::unary_samples(
      {.op = op, .formula = [](double x) { return std::log(x); }, .low = 0.1, .high = 4});
  check_op({.op = "log",
            .samples = samples,
            .errors = {{[] { log(zeros({2}, {.dtype = Dtype::int32})); },
                        "log: expected a floating dtype, got int32"}}});
}

TEST_CASE("log: -infinity at 0, NaN below") {
  auto [y, dx] =
      testing::unary_at({0, 1, INFINITY, -1}, [](Tensor x) { return log(std::move(x)); });
  CHECK(std::vector<float>(y.begin(), y.begin() + 3) == std::vector<float>{-INFINITY, 0, INFINITY});
  CHECK(dx == std::vector<float>{INFINITY, 1, 0, -1});
  CHECK(std::isnan(y[3]));
}

}  // namespace brim
