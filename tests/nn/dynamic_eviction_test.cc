// What dynamic eviction drops and in which order, worked out by hand; what it must leave alone; and
// that what is made again has the same bits.
#include "brim/autograd/dynamic_eviction.h"

#include <doctest/doctest.h>

#include <optional>

#include "brim/autograd/backward.h"
#include "brim/autograd/checkpoint.h"
#include "brim/autograd/in_place.h"
#include "brim/memory/out_of_memory.h"
#include "brim/nn/layers.h"
#include "brim/ops/ops.h"
#include "brim/tests/nn/evicting.h"
#include "brim/tests/support/replays.h"

using namespace brim;
using namespace brim::testing;
using autograd::DynamicEviction;

namespace {

constexpr int64_t kSide = 64, kBytes = kSide * kSide * 4;

Tensor weight(uint64_t seed = 1) {
  return uniform({kSide, kSide}, -1, 1, {seed}).set_requires_grad();
}

std::vector<float> gradient_of(Tensor& w) {
  std::vector<float> values = w.grad().to_vector<float>();
  w.set_grad({});
  return values;
}

}  // namespace

TEST_CASE("of two as large and as old, the one that costs less to make again goes first") {
  // exp moves 2 tensors of 16 KiB: 262,144 operations at 8 a byte. A product of matrices of 64 x 64
  // does 524,288, more than the 393,216 of its three tensors.
  for (bool uses_exp_last : {false, true}) {
    CAPTURE(uses_exp_last);
    Evicting evicting;
    autograd::SavePolicyScope saving(&evicting.eviction);
    Tensor w = weight();
    Tensor a = exp(w);                                              // op 1, saved by itself
    Tensor of_exp = sum(a);                                         // op 2
    Tensor b = matmul(w, w);                                        // op 3
    Tensor squares = mul(b, b);                                     // op 4, which saves b
    Tensor loss = add(std::move(of_exp), sum(std::move(squares)));  // ops 5 and 6
    std::weak_ptr<Storage> of_a = a.storage(), of_b = b.storage();
    if (uses_exp_last)
      for (int i = 0; i < 9; ++i) neg(a);  // ops 7 to 15
    a = b = Tensor();
    // Bytes times age for the cost, at op 6: of a, which op 2 read, 16384 * 5 / 262145, of b, which
    // op 4 did, 16384 * 3 / 524289. At op 15: of a, 16384 * 1 / 262145, of b 16384 * 12 / 524289.
    CHECK(evicting.drop());
    CHECK(of_a.expired() == !uses_exp_last);
    CHECK(of_b.expired() == uses_exp_last);
    CHECK(evicting.drop());
    CHECK(of_a.expired() == of_b.expired());
    CHECK(!evicting.drop());
    CHECK(evicting.eviction.counts().dropped == 2);
    CHECK(evicting.eviction.counts().dropped_bytes == 2 * kBytes);
    Replays rerun;
    backward(loss);
    CHECK(rerun.names == std::vector<std::string>{"matmul", "exp"});
    CHECK(evicting.eviction.counts().rerun == 2);
  }
}

TEST_CASE("what is missing around it counts: a run of neighbours is not dropped first") {
  Evicting evicting;
  autograd::SavePolicyScope saving(&evicting.eviction);
  Tensor w = weight(), other = weight(2);
  Tensor p = tanh(w), q = tanh(p), r = tanh(q);  // ops 1, 2, 3
  Tensor z = tanh(other);                        // op 4
  const std::weak_ptr<Storage> units[] = {p.storage(), q.storage(), r.storage(), z.storage()};
  Tensor loss = sum(std::move(r));      // op 5
  loss = add(loss, sum(std::move(z)));  // ops 6 and 7
  p = q = Tensor();
  // All cost the same, c. Read last by ops 2, 3, 5 and 6, they are 6, 5, 3 and 2 ops old. p goes.
  // Then q costs 2 c, so 5 / 2 counts against 3 and 2: r. Then q costs 3 c: 5 / 3 against 2: z.
  std::string order;
  for (int i = 0; i < 4; ++i) {
    REQUIRE(evicting.drop());
    for (int k = 0; k < 4; ++k)
      if (units[k].expired() && order.find("pqrz"[k]) == std::string::npos) order += "pqrz"[k];
  }
  CHECK(order == "przq");
  Replays rerun;
  backward(loss);
  CHECK(rerun.names.size() == 4);  // z; then p, q and r for r, and all of them stay
  const std::vector<float> dropped = gradient_of(w);
  backward(sum(tanh(tanh(tanh(w)))));
  CHECK(gradient_of(w) == dropped);
}

TEST_CASE("where there is room nothing is dropped, looked at or held beyond what is saved") {
  auto saved_bytes = [](bool evicts) {
    auto account = direct_account();
    memory::AccountScope of(account);
    std::optional<DynamicEviction> eviction;
    if (evicts) eviction.emplace(autograd::DynamicEvictionOptions{.budget = 1 << 30});
    memory::ReclaimerScope reclaiming(*account, evicts ? &*eviction : nullptr);
    Tensor w = weight();
    Tensor loss;
    {
      autograd::SavePolicyScope saving(evicts ? &*eviction : nullptr);
      loss = sum(mul(exp(neg(tanh(matmul(w, w)))), w));
    }
    const int64_t live = account->stats().live;
    Replays rerun;
    backward(loss);
    CHECK(rerun.names.empty());
    if (evicts) CHECK(eviction->counts().comparisons == 0);
    return live;
  };
  CHECK(saved_bytes(true) == saved_bytes(false));
}

TEST_CASE("what a program holds is not dropped, views hold their storage") {
  Evicting evicting;
  autograd::SavePolicyScope saving(&evicting.eviction);
  Tensor w = weight();
  Tensor a = tanh(w), view = reshape(exp(w), {-1});
  Tensor loss = add(sum(a), sum(mul(view, view)));
  CHECK(!evicting.drop());
  std::weak_ptr<Storage> of_view = view.storage();
  view = view.view_as({kSide, kSide});
  CHECK(!evicting.drop());
  view = Tensor();
  CHECK(evicting.drop());
  CHECK(of_view.expired());
  CHECK(!evicting.drop());
  const std::vector<float> values = a.to_vector<float>();
  backward(loss);
  CHECK(a.to_vector<float>() == values);
  const std::vector<float> with = gradient_of(w);
  Tensor b = reshape(exp(w), {-1});
  backward(add(sum(tanh(w)), sum(mul(b, b))));
  CHECK(gradient_of(w) == with);
}

TEST_CASE("what is being read, or will be within a rebuilding, stays whoever asks for bytes") {
  Evicting evicting;
  // Drops all that it can whenever it runs.
  struct Greedy final : autograd::Op {
    explicit Greedy(Evicting& in) : evicting(in) {}
    const char* name() const override { return "greedy"; }
    Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
      drop_all();
      return {clone(in[0])};
    }
    autograd::Saves saves(const autograd::Needs&) const override { return {.inputs = {0, 1}}; }
    Tensors backward(autograd::BackwardCall& call) const override {
      drop_all();
      const Tensor first = call.input(0), second = call.input(1);
      return {call.grad(), zeros_like(second)};
    }
    void drop_all() const {
      while (evicting.drop()) {
      }
    }
    Evicting& evicting;
  };
  auto greedy = [&](Tensor x, Tensor y) {
    return autograd::apply_one(std::make_shared<Greedy>(evicting), {std::move(x), std::move(y)},
                               std::source_location::current());
  };
  autograd::SavePolicyScope saving(&evicting.eviction);
  Tensor w = weight();
  Tensor first = neg(exp(w)), second = tanh(w);
  Tensor loss = sum(greedy(std::move(first), std::move(second)));
  while (evicting.drop()) {
  }
  {
    Replays rerun;
    backward(loss);  // both inputs of greedy, which drops what only exp wants
    CHECK(rerun.names == std::vector<std::string>{"exp", "neg", "tanh", "exp"});
  }
  Tensor kept = exp(w);
  loss = sum(tanh(mul(kept, greedy(w, w))));
  while (evicting.drop()) {
  }
  kept = Tensor();
  Replays rerun;
  backward(loss);
  CHECK(rerun.names == std::vector<std::string>{"greedy", "mul", "tanh", "exp"});
}

TEST_CASE("what was overwritten is refused and named, dropped or not") {
  Evicting evicting;
  autograd::SavePolicyScope saving(&evicting.eviction);
  Tensor w = weight();
  Tensor a = tanh(w);
  Tensor loss = sum(exp(a));
  fill(a, 0);
  a = Tensor();
  CHECK(evicting.drop());   // exp's result
  CHECK(!evicting.drop());  // dropped, tanh's would come back as it was before
  CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("overwritten by 'fill'"), AutogradError);
}

TEST_CASE("what goes through a checkpoint, in place or not, has the same bits") {
  auto gradients = [](int64_t budget, bool in_place) {
    Evicting evicting(budget);
    autograd::InPlaceScope overwriting(in_place);
    Tensor w = weight(), x = uniform({kSide, kSide}, -1, 1, {2});
    {
      autograd::SavePolicyScope saving(budget > 0 ? &evicting.eviction : nullptr);
      auto function = [&](Tensor t) { return relu(matmul(tanh(matmul(std::move(t), w)), w)); };
      Tensor h = matmul(x, w);
      for (int i = 0; i < 3; ++i) {
        h = exp(neg(relu(function(std::move(h)))));
        h = autograd::checkpoint(function, std::move(h));
      }
      x = Tensor();
      backward(sum(mul(h, h)));
    }
    const int64_t peak = evicting.account->stats().peak_live;
    return std::tuple(gradient_of(w), evicting.eviction.counts().dropped, peak);
  };
  const auto [expected, none, most] = gradients(0, false);
  CHECK(none == 0);
  for (bool in_place : {false, true}) {
    const int64_t budget = most * 8 / 10;
    const auto [values, dropped, peak] = gradients(budget, in_place);
    CHECK(values == expected);
    CHECK(dropped > 0);
    CHECK(peak <= budget);
  }
}

TEST_CASE("a graph that is retained drops and makes again each time, also without the policy") {
  Tensor w = weight();
  Tensor kept = sum(tanh(tanh(exp(w))));
  backward(kept);
  const std::vector<float> expected = gradient_of(w);
  Tensor loss;
  {
    DynamicEviction eviction;
    {
      autograd::SavePolicyScope saving(&eviction);
      loss = sum(tanh(tanh(exp(w))));
    }
    for (int i = 0; i < 2; ++i) {
      while (eviction.reclaim(*memory::account(Device::cpu()), 1)) {
      }
      backward(loss, {.retain_graph = true});
      CHECK(gradient_of(w) == expected);
    }
    CHECK(eviction.counts().rerun == 6);
    CHECK(eviction.reclaim(*memory::account(Device::cpu()), 1));
  }
  backward(loss);
  CHECK(gradient_of(w) == expected);
  CHECK_THROWS_AS(backward(loss), AutogradError);
}

TEST_CASE("a failed backward holds no more than there was, and another account's bytes stay") {
  Evicting evicting;
  autograd::SavePolicyScope saving(&evicting.eviction);
  Tensor w = weight();
  Tensor loss = sum(tanh(tanh(exp(w))));
  CHECK(!evicting.eviction.reclaim(*direct_account(), 1));
  while (evicting.drop()) {
  }
  const int64_t saved = evicting.account->stats().live;
  for (int64_t n = 1;; ++n) {
    REQUIRE(n < 50);
    memory::ReclaimerScope nobody(*evicting.account, nullptr);
    evicting.account->fail_nth(n);
    bool failed = false;
    try {
      backward(loss, {.retain_graph = true});
    } catch (const memory::OutOfMemory&) {
      failed = true;
    }
    evicting.account->fail_nth(0);
    if (!failed) break;
    CHECK(evicting.account->stats().live == saved);
  }
}

TEST_CASE("a budget below 0 is refused") {
  CHECK_THROWS_WITH_AS(DynamicEviction({.budget = -1}),
                       doctest::Contains("expected a budget of 0 bytes or more, got -1"),
                       ValueError);
}
