#include "brim/ops/sub.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/tests/support/binary_samples.h"

namespace brim {

TEST_CASE("sub: spec") {
  auto op = [](Tensor a, Tensor b) { return sub(std::move(a), std::move(b)); };
  check_op({.op = "sub",
            .samples = testing::binary_samples(
                {.op = op, .formula = [](double x, double y) { return x - y; }}),
            .errors = testing::binary_errors(op)});
}

TEST_CASE("sub: a tensor less itself has no gradient, and what it was given stays") {
  Tensor a = ones({4}).set_requires_grad(), dy = full({4}, 3);
  backward(sub(a, a), {.grad = dy});
  CHECK(a.grad().to_vector<float>() == std::vector<float>{0, 0, 0, 0});
  CHECK(dy.to_vector<float>() == std::vector<float>{3, 3, 3, 3});
}

TEST_CASE("sub: nothing is saved") {
  Tensor a = ones({4}).set_requires_grad(), b = ones({4}).set_requires_grad();
  Tensor y = sub(a, b);
  CHECK(a.storage()->tape_holds() == 0);
  CHECK(b.storage()->tape_holds() == 0);
  CHECK(y.storage()->tape_holds() == 0);
}

}  // namespace brim
