#include "brim/ops/neg.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/tests/support/unary_samples.h"

namespace brim {

TEST_CASE("neg: spec") {
  auto op = [](Tensor x) { return neg(std::move(x)); };
  std::vector<OpSample> samples =
      testing::unary_samples({.op = op, .formula = [](double x) { return -x; }});
  check_op({.op = "neg",
            .samples = samples,
            .errors = {{[] { neg(zeros({2}, {.dtype = Dtype::int32})); },
                        "neg: expected a floating dtype, got int32"}}});
}

TEST_CASE("neg: nothing is saved, and the gradient given stays") {
  Tensor x = ones({3}).set_requires_grad(), dy = full({3}, 2), y = neg(x);
  CHECK(x.storage()->tape_holds() == 0);
  CHECK(y.storage()->tape_holds() == 0);
  backward(y, {.grad = dy});
  CHECK(x.grad().to_vector<float>() == std::vector<float>{-2, -2, -2});
  CHECK(dy.to_vector<float>() == std::vector<float>{2, 2, 2});
}

}  // namespace brim
