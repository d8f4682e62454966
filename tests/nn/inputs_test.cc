// Modules of any number of inputs.
#include <doctest/doctest.h>

#include "brim/nn/linear.h"
#include "brim/nn/module.h"
#include "brim/ops/operators.h"

using namespace brim;

namespace {

struct Two final : nn::Module {
  Tensor forward(Tensor a, Tensor b) override { return a - b; }
};
struct Three final : nn::Module {
  Tensor forward(Tensor a, Tensor b, Tensor c) override { return a - b * c; }
};
struct Any final : nn::Module {
  Tensor forward(std::vector<Tensor> inputs) override {
    Tensor total = inputs[0];
    for (size_t i = 1; i < inputs.size(); ++i) total = total + inputs[i];
    return total;
  }
};

Tensor number(double value) { return full({}, value); }

}  // namespace

TEST_CASE("module: is called with as many tensors as its forward has") {
  Two two;
  Three three;
  nn::Module& as_module = two;
  CHECK(two(number(5), number(2)).item<float>() == 3);
  CHECK(as_module(number(5), number(2)).item<float>() == 3);
  CHECK(three(number(5), number(2), number(4)).item<float>() == -3);
}

TEST_CASE("module: a list of inputs, whatever their number") {
  Any any;
  CHECK(any(number(1)).item<float>() == 1);
  CHECK(any(number(1), number(2)).item<float>() == 3);
  CHECK(any({number(1), number(2), number(3), number(4)}).item<float>() == 10);
}

TEST_CASE("module: another number of inputs is an error that says so") {
  Two two;
  CHECK_THROWS_WITH_AS(two(number(1)), "module: Module has no forward of 1 tensor", ValueError);
  CHECK_THROWS_WITH_AS(two(number(1), number(1), number(1)),
                       "module: Module has no forward of 3 tensors", ValueError);
  nn::Linear line(1, 1);
  nn::initialize(line, /*seed=*/1);
  CHECK_THROWS_WITH_AS(static_cast<nn::Module&>(line)(ones({1, 1}), ones({1, 1})),
                       "module: Linear has no forward of 2 tensors", ValueError);
}
