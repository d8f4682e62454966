#include "brim/ops/silu.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/tests/support/unary_samples.h"

namespace brim {

TEST_CASE("silu: spec") {
  auto op = [](Tensor x) { return silu(std::move(x)); };
  std::vector<OpSample> samples = testing::unary_samples(
      {.op = op, .formula = [](double x) { return x / (1 + std::exp(-x)); }, .low = -8, .high = 8});
  check_op({.op = "silu",
            .samples = samples,
            .errors = {{[] { silu(zeros({2}, {.dtype = Dtype::int32})); },
                        "silu: expected a floating dtype, got int32"}}});
}

TEST_CASE("silu: nothing overflows far out; NaN stays NaN, in the gradient too") {
  auto [y, dx] =
      testing::unary_at({-1000, 0, 1000, NAN}, [](Tensor x) { return silu(std::move(x)); });
  CHECK(std::vector<float>(y.begin(), y.begin() + 3) == std::vector<float>{0, 0, 1000});
  CHECK(std::vector<float>(dx.begin(), dx.begin() + 3) == std::vector<float>{0, 0.5f, 1});
  CHECK(std::isnan(y[3]));
  CHECK(std::isnan(dx[3]));
}

}  // namespace brim
