// What a checkpointed function depends on beside its arguments cannot change what runs again: its
// ops do, with what they had, and not the function. Ops that give something else the second time,
// and inputs that were written to in between, are found and named.
#include <doctest/doctest.h>

#include <functional>
#include <optional>

#include "brim/autograd/backward.h"
#include "brim/autograd/checkpoint.h"
#include "brim/autograd/in_place.h"
#include "brim/autograd/planned_recomputation.h"
#include "brim/ops/ops.h"

using namespace brim;
using autograd::checkpoint;

namespace {

/// Gives what it gets and zeros; but the second time it gives what `again` makes of that.
class Fickle final : public autograd::Op {
 public:
  using Again = std::function<Tensors(Tensors)>;
  explicit Fickle(Again again) : again_(std::move(again)) {}
  const char* name() const override { return "fickle"; }
  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    Tensors out{clone(in[0]), zeros({2})};
    return std::exchange(ran_, true) ? again_(std::move(out)) : out;
  }
  Tensors backward(autograd::BackwardCall& call) const override { return {call.take_grad()}; }

 private:
  Again again_;
  mutable bool ran_ = false;
};

void run_fickle(Fickle::Again again) {
  Tensor w = uniform({4, 4}, -1, 1, {1}).set_requires_grad();
  Tensor y = checkpoint(
      [&](const Tensor& t) {
        Tensor h = autograd::apply_one(std::make_shared<Fickle>(std::move(again)), {mul(t, t)},
                                       Where::current());
        return tanh(mul(h, h));
      },
      w);
  backward(sum(std::move(y)));
}

std::string refusal_of(Fickle::Again again) {
  try {
    run_fickle(std::move(again));
  } catch (const AutogradError& error) {
    return error.what();
  }
  return "";
}

Tensor weights() { return uniform({8, 8}, -1, 1, {1}).set_requires_grad(); }
Tensor images() { return uniform({8, 8}, -1, 1, {2}); }

}  // namespace

TEST_CASE("outside state that changed since cannot change what runs again") {
  struct World {
    bool takes_tanh = true;
    double rate = 0.3;
    int calls = 0;
    Tensor weight;
  };
  auto gradient = [](bool checkpointed, bool changes) {
    World world{.weight = weights()};
    const Tensor w = world.weight;
    auto function = [&world](const Tensor& t) {
      ++world.calls;
      Tensor h = matmul(t, world.weight);
      h = world.takes_tanh ? tanh(std::move(h)) : sigmoid(std::move(h));
      h = dropout(std::move(h), {.p = world.rate});
      return tanh(matmul(std::move(h), world.weight));
    };
    autograd::manual_seed(7);
    Tensor y = checkpointed ? checkpoint(function, images()) : function(images());
    if (changes) {
      world = {.takes_tanh = false, .rate = 0.9, .calls = world.calls, .weight = zeros({8, 8})};
      autograd::manual_seed(8);  // nor does it draw other numbers
    }
    backward(sum(std::move(y)));
    CHECK(world.calls == 1);
    return w.grad().to_vector<float>();
  };
  const std::vector<float> expected = gradient(false, false);
  CHECK(gradient(true, false) == expected);
  CHECK(gradient(true, true) == expected);
}

TEST_CASE("scopes that are open around backward do not change what runs again") {
  auto gradient = [](bool in_scopes) {
    Tensor w = weights();
    Tensor y = sum(checkpoint(
        [&](const Tensor& t) { return tanh(dropout(relu(tanh(matmul(t, w))), {.p = 0.3})); },
        images()));
    std::optional<autograd::NoGradScope> no_grad;
    std::optional<autograd::RandomScope> random;
    autograd::InPlaceScope in_place(in_scopes);
    if (in_scopes) {
      no_grad.emplace();
      random.emplace(/*seed=*/5, /*update=*/6);
    }
    backward(y);
    return w.grad().to_vector<float>();
  };
  autograd::manual_seed(7);
  const std::vector<float> expected = gradient(false);
  autograd::manual_seed(7);
  CHECK(gradient(true) == expected);
}

TEST_CASE("an op that gives other shapes, dtypes or results when it runs again is named") {
  CHECK_NOTHROW(run_fickle([](Tensors out) { return out; }));
  CHECK(refusal_of([](Tensors out) {
          out[0] = zeros({5, 4});
          return out;
        }) ==
        "fickle: run again for backward it gives [5,4] of float32, where the forward pass gave "
        "[4,4] of float32");
  CHECK(refusal_of([](Tensors out) {
          out[0] = zeros({4, 4}, {.dtype = Dtype::float64});
          return out;
        }) ==
        "fickle: run again for backward it gives [4,4] of float64, where the forward pass gave "
        "[4,4] of float32");
  const std::string counts = "fickle: run again for backward it gives ";
  CHECK(refusal_of([](Tensors) { return Tensors{}; }) ==
        counts + "0 results, where the forward pass gave 2");
  CHECK(refusal_of([](Tensors out) {
          out.push_back(zeros({1}));
          return out;
        }) == counts + "3 results, where the forward pass gave 2");
  CHECK(refusal_of([](Tensors out) {
          out[0] = Tensor();
          return out;
        }) == counts + "no result 0, which the forward pass gave");
}

TEST_CASE("an op that names all its outputs as anchors runs once under every policy") {
  struct Counter final : autograd::Op {
    explicit Counter(int& runs) : runs_(runs) {}
    const char* name() const override { return "counter"; }
    Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
      ++runs_;
      return {clone(in[0])};
    }
    std::vector<int> anchors() const override { return {0}; }
    Tensors backward(autograd::BackwardCall& call) const override { return {call.take_grad()}; }
    int& runs_;
  };
  auto run = [](autograd::SavePolicy* policy, bool checkpointed) {
    int runs = 0;
    const Tensor w = weights();
    auto function = [&](const Tensor& t) {
      Tensor counted =
          autograd::apply_one(std::make_shared<Counter>(runs), {tanh(t)}, Where::current());
      return tanh(mul(counted, counted));
    };
    autograd::SavePolicyScope scope(policy);
    backward(sum(checkpointed ? checkpoint(function, w) : function(w)));
    CHECK(runs == 1);
    return w.grad().to_vector<float>();
  };
  const std::vector<float> expected = run(nullptr, false);
  CHECK(run(nullptr, true) == expected);
  autograd::SegmentedRecomputation segments(/*segments=*/2, /*calls=*/2);
  CHECK(run(&segments, false) == expected);
  autograd::PlannedRecomputation planned(
      std::make_shared<autograd::Fates>(8, std::vector<memory::Fate>{memory::Fate::remake}));
  CHECK(run(&planned, false) == expected);
}

TEST_CASE("an input that was written to since is refused, with who reads it and who wrote") {
  auto refusal = [](const std::function<void(const Tensor& w, const Tensor& x)>& write) {
    Tensor w = weights(), x = images();
    Tensor y =
        sum(checkpoint([&](const Tensor& t) { return tanh(matmul(tanh(matmul(t, w)), w)); }, x));
    write(w, x);
    const int64_t before = memory::account(Device::cpu())->stats().live;
    try {
      backward(y);
    } catch (const AutogradError& error) {
      CHECK(memory::account(Device::cpu())->stats().live <= before);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string overwritten = "a saved tensor of shape [8,8] was overwritten by ";
  CHECK(refusal([](const Tensor&, const Tensor&) {}) == "");
  CHECK(refusal([](const Tensor&, const Tensor& x) { fill(x, 1); }) ==
        "matmul: " + overwritten + "'fill' after the forward pass");
  CHECK(refusal([](const Tensor& w, const Tensor&) { fill(w, 1); }) ==
        "matmul: " + overwritten + "'fill' after the forward pass");
  CHECK(refusal([](const Tensor& w, const Tensor& x) { copy_into(w, x); }).find(overwritten) !=
        std::string::npos);
}

TEST_CASE("a kept result that was written to since is refused where it is read to make others") {
  autograd::Fates fates{{autograd::Fate::keep}, {autograd::Fate::retain}};
  autograd::PlannedRecomputation policy(std::make_shared<autograd::Fates>(fates));
  Tensor w = weights(), h, loss;
  {
    autograd::SavePolicyScope scope(&policy);
    h = matmul(images(), w);  // kept
    loss = sum(exp(tanh(h)));
  }
  fill(h, 0);
  CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("overwritten by 'fill'"), AutogradError);
}
