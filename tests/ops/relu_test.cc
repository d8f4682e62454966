#include "brim/ops/relu.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/tests/support/unary_samples.h"

namespace brim {

TEST_CASE("relu: spec") {
  check_op({.op = "relu",
            .samples = testing::unary_samples({.op = [](Tensor x) { return relu(std::move(x)); },
                                               .formula = [](double x) { return x < 0 ? 0 : x; },
                                               .kinks = {0}}),
            .errors = {{[] { relu(zeros({2}, {.dtype = Dtype::int32})); },
                        "relu: expected a floating dtype, got int32"}}});
}

TEST_CASE("relu: no gradient at 0 and below; NaN stays NaN") {
  auto [y, dx] = testing::unary_at({-1, 0, 2}, [](Tensor x) { return relu(std::move(x)); });
  CHECK(y == std::vector<float>{0, 0, 2});
  CHECK(dx == std::vector<float>{0, 0, 1});
  CHECK(std::isnan(relu(full({}, NAN)).item<float>()));
}

}  // namespace brim
