// What a plan says of each result is what the tape does with it: a kept one is held, a retained one
// made again once, one to be remade for each of its readers and gone after it. Plans that do not
// match what is recorded keep it.
#include "brim/autograd/planned_recomputation.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/ops/ops.h"
#include "brim/tests/support/replays.h"

using namespace brim;
using autograd::Fate;
using autograd::Fates;

namespace {

class ReplaysAndLives final : public brim::testing::Replays {
 public:
  void ran(const autograd::OpEvent& event) override {
    Replays::ran(event);
    if (event.phase != autograd::Phase::recompute) return;
    const std::string name = event.op.name();
    for (const auto& [of, storage] : made_)
      if (of == name && !storage.expired()) ++there_twice;
    made_.emplace_back(name, event.outputs.front().storage());
  }
  int there_twice = 0;  ///< results that were still held as they were made once more

 private:
  std::vector<std::pair<std::string, std::weak_ptr<Storage>>> made_;
};

struct Result {
  std::vector<std::vector<float>> gradients;
  std::vector<std::string> replays;
  int there_twice = 0;
};

/// g = x * w is read by c = g * w and by tanh; h = tanh(g) by a = h * w, b = h * w and itself.
/// Backward comes to b, a, tanh, c.
Result run(const Fates& fates) {
  autograd::PlannedRecomputation policy(std::make_shared<Fates>(fates));
  Tensor w = uniform({16, 16}, -1, 1, {1}).set_requires_grad();
  Tensor x = uniform({16, 16}, -1, 1, {2}).set_requires_grad();
  Tensor loss;
  {
    autograd::SavePolicyScope scope(&policy);
    Tensor g = mul(x, w);  // call 0
    Tensor c = mul(g, w);  // call 1
    Tensor h = tanh(g);    // call 2
    Tensor a = mul(h, w), b = mul(h, w);
    g = h = Tensor();
    loss = sum(add(add(a, b), c));
  }
  ReplaysAndLives replays;
  backward(std::move(loss));
  return {{w.grad().to_vector<float>(), x.grad().to_vector<float>()},
          replays.names,
          replays.there_twice};
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("kept results are held, retained ones made once, others for each reader") {
  const Result kept = run({});
  CHECK(kept.replays.empty());
  auto check = [&](Fate g, Fate h, const Names& replays) {
    const Result result = run({{g}, {Fate::keep}, {h}});
    CHECK(result.gradients == kept.gradients);
    CHECK(result.replays == replays);
    CHECK(result.there_twice == 0);
  };
  const Fate keep = Fate::keep, retain = Fate::retain, remake = Fate::remake;
  check(keep, keep, {});
  check(keep, retain, {"tanh"});
  check(keep, remake, {"tanh", "tanh", "tanh"});
  check(retain, keep, {"mul"});
  check(remake, keep, {"mul"});
  // For b both are made; what is retained is there for a, tanh and c too.
  check(retain, retain, {"mul", "tanh"});
  check(retain, remake, {"mul", "tanh", "tanh", "tanh"});
  // What is remade for h goes with it, and is made for c once more.
  check(remake, retain, {"mul", "tanh", "mul"});
  check(remake, remake, {"mul", "tanh", "mul", "tanh", "mul", "tanh", "mul"});
}

TEST_CASE("what a step of backward reads is made together: what several of it lack, once") {
  const Tensor w = uniform({4, 16}, -1, 1, {1}), x = uniform({4, 16}, -1, 1, {2});
  // g = x * w, a and b of it, and a result of both, which reads a and b in backward.
  using Join = Tensor (*)(const Tensor& a, const Tensor& b);
  auto run = [&](Join join, const Fates& fates) {
    autograd::PlannedRecomputation policy(std::make_shared<Fates>(fates));
    const Tensor w_leaf = clone(w).set_requires_grad(), x_leaf = clone(x).set_requires_grad();
    Tensor loss;
    {
      autograd::SavePolicyScope scope(&policy);
      const Tensor g = mul(x_leaf, w_leaf), a = tanh(g), b = sigmoid(g);
      loss = sum(mul(join(a, b), w));
    }
    ReplaysAndLives replays;
    backward(std::move(loss));
    return Result{{w_leaf.grad().to_vector<float>(), x_leaf.grad().to_vector<float>()},
                  replays.names,
                  replays.there_twice};
  };
  const Fate keep = Fate::keep, remake = Fate::remake;
  // The outputs of the join beside its result are kept.
  auto check = [&](Join join, int more_outputs, const Names& replays) {
    std::vector<Fate> of_join(static_cast<size_t>(1 + more_outputs), keep);
    of_join[0] = remake;
    const Result kept = run(join, {}), made = run(join, {{remake}, {remake}, {remake}, of_join});
    CHECK(kept.replays.empty());
    CHECK(made.gradients == kept.gradients);
    CHECK(made.replays == replays);
    CHECK(made.there_twice == 0);
  };
  // The product wants both; then sigmoid and tanh want their results again, each by itself.
  const Names apart{"mul", "sigmoid", "mul", "tanh"};
  Names both{"mul", "tanh", "sigmoid"};
  both.insert(both.end(), apart.begin(), apart.end());
  check([](const Tensor& a, const Tensor& b) { return mul(a, b); }, 0, both);
  // A norm that saved its result reads, in place of it, what the result is made of.
  check(
      [](const Tensor& a, const Tensor& b) {
        return batch_norm(a, ones({16}), zeros({16}), zeros({16}), ones({16}),
                          {.residual = b, .activation = Activation::relu});
      },
      2, both);
  // A value that is read twice is made once.
  check([](const Tensor& a, const Tensor&) { return mul(a, a); }, 0,
        {"mul", "tanh", "mul", "tanh"});
}

TEST_CASE("what is dropped takes no bytes before backward comes to it, nor more than kept after") {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  struct Live final : autograd::OpObserver {
    explicit Live(memory::Account& of) : account(of) {}
    void ran(const autograd::OpEvent& event) override {
      if (event.phase == autograd::Phase::backward) bytes.push_back(account.stats().live);
    }
    memory::Account& account;
    std::vector<int64_t> bytes;  // after each backward function
  };
  auto live = [&](Fate h) {
    Live observer(*account);
    run({{Fate::keep}, {Fate::keep}, {h}});
    CHECK(account->stats().live == 0);
    return observer.bytes;
  };
  const std::vector<int64_t> kept = live(Fate::keep);
  for (Fate fate : {Fate::retain, Fate::remake}) {
    const std::vector<int64_t> dropped = live(fate);
    REQUIRE(dropped.size() == kept.size());
    CHECK(kept.front() - dropped.front() == 16 * 16 * 4);  // after that of the sum
    for (size_t i = 0; i < kept.size(); ++i) CHECK(dropped[i] <= kept[i]);
  }
}

TEST_CASE("what a plan does not have is kept") {
  const Result kept = run({});
  for (const Fates& fates : {Fates{{}, {}, {}}, Fates{{Fate::retain, Fate::retain}},
                             Fates{{Fate::remake, Fate::keep}, {}, {Fate::retain, Fate::remake}}}) {
    const Result result = run(fates);  // of no call, and of other numbers of outputs
    CHECK(result.gradients == kept.gradients);
    CHECK(result.replays.empty());
  }
  const Result first = run({{Fate::retain}});  // of the first call alone
  CHECK(first.gradients == kept.gradients);
  CHECK(first.replays == Names{"mul"});
  // Of more calls than there are.
  const Result more = run(Fates(1000, {Fate::retain}));
  CHECK(more.gradients == kept.gradients);
  CHECK(more.replays == run(Fates(7, {Fate::retain})).replays);
}

TEST_CASE("segments want numbers above 0") {
  for (auto [segments, calls] : {std::pair(0, 4), std::pair(4, 0), std::pair(-1, 4)})
    CHECK_THROWS_WITH_AS((autograd::SegmentedRecomputation(segments, calls)),
                         doctest::Contains("expected segments and calls above 0"), ValueError);
}
