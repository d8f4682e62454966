#include "brim/ops/mul.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/tests/support/binary_samples.h"

namespace brim {
TEST_CASE("mul: spec") {
  auto op = [](Tensor a, Tensor b) { return mul(std::move(a), std::move(b)); };
  check_op({.op = "mul",
            .samples = testing::binary_samples(
                {.op = op, .formula = [](double x, double y) { return x * y; }}),
            .errors = testing::binary_errors(op)});
}

TEST_CASE("mul: only what the other's gradient needs is saved") {
  Tensor a = ones({4}), b = ones({4});
  a.set_requires_grad();
  Tensor y = mul(a, b);
  CHECK(a.storage()->tape_holds() == 0);
  CHECK(b.storage()->tape_holds() == 1);
}

TEST_CASE("mul: an input that was overwritten is refused, with the name of the writer") {
  Tensor a = ones({4}), b = ones({4});
  a.set_requires_grad();
  Tensor y = mul(a, b);
  fill(b, 2);
  CHECK_THROWS_WITH_AS(backward(y, {.grad = ones({4})}),
                       "mul: a saved tensor of shape [4] was overwritten by 'fill' after the "
                       "forward pass",
                       AutogradError);
}

TEST_CASE("mul: the square of a tensor has the gradient 2x") {
  Tensor a = full({3}, 5);
  a.set_requires_grad();
  backward(mul(a, a), {.grad = ones({3})});
  CHECK(a.grad().to_vector<float>() == std::vector<float>{10, 10, 10});
}

}  // namespace brim
