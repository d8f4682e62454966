#include "brim/ops/relu6.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/tests/support/unary_samples.h"

namespace brim {

TEST_CASE("relu6: spec") {
  check_op({.op = "relu6",
            .samples =
                testing::unary_samples({.op = [](Tensor x) { return relu6(std::move(x)); },
                                        .formula = [](double x) { return std::clamp(x, 0.0, 6.0); },
                                        .low = -4,
                                        .high = 10,
                                        .kinks = {0, 6}}),
            .errors = {{[] { relu6(zeros({2}, {.dtype = Dtype::uint8})); },
                        "relu6: expected a floating dtype, got uint8"}}});
}

TEST_CASE("relu6: no gradient at 0, at 6, and beyond; NaN stays NaN") {
  auto [y, dx] = testing::unary_at({-1, 0, 3, 6, 7}, [](Tensor x) { return relu6(std::move(x)); });
  CHECK(y == std::vector<float>{0, 0, 3, 6, 6});
  CHECK(dx == std::vector<float>{0, 0, 1, 0, 0});
  CHECK(std::isnan(relu6(full({}, NAN)).item<float>()));
}

}  // namespace brim
