// Batch norms compute the same with and without what they fuse, in the calls that are said.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "brim/autograd/backward.h"
#include "brim/nn/batch_norm2d.h"
#include "brim/nn/creation.h"
#include "brim/nn/init.h"
#include "brim/ops/ops.h"

using namespace brim;
using Calls = std::vector<std::string>;

namespace {

struct ForwardCalls final : autograd::OpObserver {
  void ran(const autograd::OpEvent& event) override {
    if (event.phase == autograd::Phase::forward) names.emplace_back(event.op.name());
  }
  Calls names;
};

struct Outcome {
  Calls calls;
  std::vector<Tensor> values;  // y, gradients, running statistics
};

Tensor random_values(uint64_t key) {
  return cast(uniform({2, 5, 4, 3}, -3, 3, RandomKey{key}), Dtype::float64);
}

Outcome outcome(Activation activation, bool has_residual) {
  nn::CreationScope in_double({.dtype = Dtype::float64});
  nn::BatchNorm2d bn(3, {.weight = 2});
  nn::initialize(bn, 1);
  Tensor x = random_values(1).set_requires_grad(), residual;
  if (has_residual) residual = random_values(2).set_requires_grad();
  Outcome result;
  {
    ForwardCalls calls;
    result.values = {bn(x, {.residual = residual, .activation = activation})};
    result.calls = calls.names;
  }
  backward(result.values[0], {.grad = random_values(3)});
  for (const Tensor& leaf : {x, residual, bn.weight, bn.bias})
    if (leaf.defined()) result.values.push_back(leaf.grad());
  result.values.push_back(bn.running_mean);
  result.values.push_back(bn.running_var);
  return result;
}

void check_same_without_fusion(Activation activation, bool has_residual, const Calls& calls) {
  CAPTURE(to_string(activation));
  CAPTURE(has_residual);
  const Outcome fused = outcome(activation, has_residual);
  CHECK(fused.calls == Calls{"batch_norm"});
  nn::UnfusedScope scope;
  const Outcome unfused = outcome(activation, has_residual);
  CHECK(unfused.calls == calls);
  REQUIRE(unfused.values.size() == fused.values.size());
  for (size_t i = 0; i < fused.values.size(); ++i) {
    const auto expected = fused.values[i].to_vector<double>(),
               actual = unfused.values[i].to_vector<double>();
    REQUIRE(actual.size() == expected.size());
    for (size_t k = 0; k < expected.size(); ++k)
      CHECK(actual[k] == doctest::Approx(expected[k]).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("what batch norms fuse computes the same in calls of its own") {
  check_same_without_fusion(Activation::none, false, {"batch_norm"});
  check_same_without_fusion(Activation::none, true, {"batch_norm", "add"});
  check_same_without_fusion(Activation::relu, false, {"batch_norm", "relu"});
  check_same_without_fusion(Activation::relu, true, {"batch_norm", "add", "relu"});
  check_same_without_fusion(Activation::relu6, false, {"batch_norm", "relu6"});
  check_same_without_fusion(Activation::relu6, true, {"batch_norm", "add", "relu6"});
  check_same_without_fusion(Activation::hardswish, false, {"batch_norm", "hardswish"});
  check_same_without_fusion(Activation::hardswish, true, {"batch_norm", "add", "hardswish"});
}

TEST_CASE("scopes without fusion nest, and fusion is back behind the last one") {
  const Calls apart{"batch_norm", "relu"};
  {
    nn::UnfusedScope outer;
    { nn::UnfusedScope inner; }
    CHECK(outcome(Activation::relu, false).calls == apart);
  }
  CHECK(outcome(Activation::relu, false).calls == Calls{"batch_norm"});
}
