#include "brim/ops/div.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/tests/support/binary_samples.h"

namespace brim {

TEST_CASE("div: spec") {
  auto op = [](Tensor a, Tensor b) { return div(std::move(a), std::move(b)); };
  auto formula = [](double x, double y) { return x / y; };
  OpSpec spec{
      .op = "div",
      .samples = testing::binary_samples({.op = op, .formula = formula, .low = 0.5, .high = 2}),
      .errors = testing::binary_errors(op)};
  // Away from 0 on its other side.
  spec.samples.push_back(
      testing::binary_samples({.op = op, .formula = formula, .low = -2, .high = -0.5}).front());
  check_op(spec);
}

TEST_CASE("div: by 0 gives infinity and NaN") {
  Tensor y = div(from_vector<float>({1, -1, 0}, {3}), zeros({1}));
  std::vector<float> values = y.to_vector<float>();
  CHECK(values[0] == INFINITY);
  CHECK(values[1] == -INFINITY);
  CHECK(std::isnan(values[2]));
}

TEST_CASE("div: the numerator is not saved, and the quotient only for the divisor's gradient") {
  Tensor a = ones({4}).set_requires_grad(), b = ones({4});
  Tensor y = div(a, b);
  CHECK(a.storage()->tape_holds() == 0);
  CHECK(b.storage()->tape_holds() == 1);
  CHECK(y.storage()->tape_holds() == 0);
  b.set_requires_grad();
  CHECK(div(a, b).storage()->tape_holds() == 1);
}

}  // namespace brim
