// Two optimizers in one update: each parameter has the bits that its own optimizer gives it.
#include "brim/optim/combined.h"

#include <doctest/doctest.h>

#include <limits>

#include "brim/nn/linear.h"
#include "brim/nn/module.h"
#include "brim/optim/adamw.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/compare.h"

using namespace brim;
using testing::bit_difference;

namespace {

struct Net final : nn::Module {
  Net() {
    register_modules({{"body", body}, {"head", head}});
    nn::initialize(*this, /*seed=*/3);
  }
  Tensor forward(Tensor x) override { return head(body(std::move(x))); }
  nn::Linear body{5, 70}, head{70, 3};
};

void set_gradients(nn::Module& net, uint64_t key) {
  for (const auto& [name, tensor] : net.named_parameters())
    tensor.set_grad(uniform(tensor.shape(), -1, 1, RandomKey{key++}));
}

std::unique_ptr<optim::Optimizer> two_of(nn::Module& net) {
  return optim::combine(
      {{optim::sgd(net.named_parameters("body"), {.momentum = 0.9})},
       {optim::adamw(net.named_parameters("head"), {.weight_decay = 0.1}), /*rate_factor=*/0.25}});
}

}  // namespace

TEST_CASE("combined: the bits of each by itself, over several updates") {
  Net together, apart;
  const auto both = two_of(together);
  const auto sgd = optim::sgd(apart.named_parameters("body"), {.momentum = 0.9});
  const auto adamw = optim::adamw(apart.named_parameters("head"), {.weight_decay = 0.1});
  for (uint64_t update = 0; update < 4; ++update) {
    set_gradients(together, 10 * update);
    set_gradients(apart, 10 * update);
    both->step(0.5);
    sgd->step(0.5);
    adamw->step(0.125);
    for (const auto& [name, tensor] : together.named_parameters())
      CHECK_MESSAGE(bit_difference(tensor, apart.tensor(name)) == "", name);
  }
  CHECK(both->named_state().size() == 2 + 4);
}

TEST_CASE("combined: a gradient that is not finite leaves the parameters of both as they were") {
  Net net;
  const auto both = two_of(net);
  set_gradients(net, 1);
  net.tensor("head.bias").grad().data<float>()[1] = std::numeric_limits<float>::infinity();
  const Tensor before = clone(net.tensor("body.weight"));
  CHECK_THROWS_WITH_AS(both->step(0.5), doctest::Contains("'head.bias' is not finite"), ValueError);
  CHECK(bit_difference(net.tensor("body.weight"), before) == "");
}

TEST_CASE("combined: the norm that is clipped is that of all gradients") {
  Net net, other;
  const auto both = two_of(net);
  const auto one = optim::sgd(other, {});
  set_gradients(net, 1);
  set_gradients(other, 1);
  both->step({.rate = 0.5, .clip = {.norm = 0.1}});
  one->step({.rate = 0.5, .clip = {.norm = 0.1}});
  CHECK(*both->gradient_norm() == *one->gradient_norm());
}

TEST_CASE("combined: another one like it, for a rehearsal") {
  Net net, other;
  const auto both = two_of(net);
  const auto copy = both->like(other.named_parameters());
  set_gradients(net, 1);
  set_gradients(other, 1);
  both->step(0.5);
  copy->step(0.5);
  for (const auto& [name, tensor] : net.named_parameters())
    CHECK_MESSAGE(bit_difference(tensor, other.tensor(name)) == "", name);
}

TEST_CASE("combined: what cannot be one optimizer is named") {
  Net net;
  CHECK_THROWS_WITH_AS(optim::combine({}), "combined: expected an optimizer, got none", ValueError);
  CHECK_THROWS_WITH_AS(
      optim::combine({{optim::sgd(net)}, {optim::adamw(net.named_parameters("head"))}}),
      "combined: 'head.weight' and 'head.weight' are the same parameter", ValueError);
  CHECK_THROWS_WITH_AS(optim::combine({{optim::sgd(net), -1}}),
                       "combined: expected a rate factor of at least 0, got -1", ValueError);
  CHECK_THROWS_WITH_AS(net.named_parameters("haed"),
                       doctest::Contains("has no parameters at or below 'haed'"), ValueError);
}
