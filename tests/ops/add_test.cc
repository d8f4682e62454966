#include "brim/ops/add.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/tests/support/binary_samples.h"

namespace brim {
TEST_CASE("add: spec") {
  auto op = [](Tensor a, Tensor b) { return add(std::move(a), std::move(b)); };
  check_op({.op = "add",
            .samples = testing::binary_samples(
                {.op = op, .formula = [](double x, double y) { return x + y; }}),
            .errors = testing::binary_errors(op)});
}

TEST_CASE("add: both inputs of one shape get the gradient itself") {
  class Watch final : public autograd::OpObserver {
   public:
    void ran(const autograd::OpEvent& event) override {
      if (event.phase == autograd::Phase::backward)
        shared = event.outputs[0].is_same(event.outputs[1]);
    }
    bool shared = false;
  };
  Tensor a = ones({4}), b = ones({4});
  a.set_requires_grad();
  b.set_requires_grad();
  Watch watch;
  backward(add(a, b), {.grad = ones({4})});
  CHECK(watch.shared);
  // Leaves still end up with gradients of their own.
  CHECK(a.grad().storage() != b.grad().storage());
}

TEST_CASE("add: a tensor added to itself gets both gradients") {
  Tensor a = ones({4});
  a.set_requires_grad();
  backward(add(a, a), {.grad = ones({4})});
  CHECK(a.grad().to_vector<float>() == std::vector<float>{2, 2, 2, 2});
}

}  // namespace brim
