#include "brim/ops/tanh.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/tests/support/unary_samples.h"

namespace brim {

TEST_CASE("tanh: spec") {
  auto op = [](Tensor x) { return tanh(std::move(x)); };
  std::vector<OpSample> samples = testing::unary_samples(
      {.op = op, .formula = [](double x) { return std::tanh(x); }, .low = -1, .high = 1});
  // Where y is next to 1 or -1, 1 - y^2 has few digits: values alone.
  for (OpSample& sample : testing::unary_samples({.op = op,
                          .formula = [](double x) { return std::tanh(x); },
                          .low = -9,
                          .high = 9,
                          .differentiable = false,
                          .name = "far out, "}))
    samples.push_back(std::move(sample));
  check_op({.op = "tanh",
            .samples = samples,
            .errors = {{[] { tanh(zeros({2}, {.dtype = Dtype::int32})); },
                        "tanh: expected a floating dtype, got int32"}}});
}

TEST_CASE("tanh: flat far out, without overflow; NaN stays NaN") {
  auto [y, dx] = testing::unary_at({-INFINITY, -1000, 0, 1000, INFINITY},
                                   [](Tensor x) { return tanh(std::move(x)); });
  CHECK(y == std::vector<float>{-1, -1, 0, 1, 1});
  CHECK(dx == std::vector<float>{0, 0, 1, 0, 0});
  CHECK(std::isnan(tanh(full({}, NAN)).item<float>()));
}

}  // namespace brim
