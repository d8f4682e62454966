// Programs drawn at random, run with everything kept and with dynamic eviction: whatever they read,
// hold, view, write over, checkpoint or go through twice, the bits are the same, and the budget
// holds or is refused.
#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/autograd/checkpoint.h"
#include "brim/autograd/in_place.h"
#include "brim/memory/out_of_memory.h"
#include "brim/ops/ops.h"
#include "brim/tests/nn/evicting.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int64_t kSide = 64;

struct Program {
  uint64_t seed;
  bool in_place;

  /// The gradient of the only parameter, after one or two backward passes.
  std::vector<float> run() const {
    autograd::RandomScope random_scope(/*seed=*/seed, /*update=*/0, /*first_sample=*/0);
    autograd::InPlaceScope overwriting(in_place);
    RandomStream random(RandomKey{seed});
    Tensor w = uniform({kSide, kSide}, -0.2, 0.2, {seed}).set_requires_grad();
    std::vector<Tensor> values{matmul(uniform({kSide, kSide}, -1, 1, {seed + 1}), w)};
    const uint64_t calls = 30 + random.below(60);
    for (uint64_t i = 0; i < calls; ++i) call(random, values, w);
    Tensor loss = sum(std::move(values.front()));
    while (values.size() > 1) {
      loss = add(std::move(loss), sum(std::move(values.back())));
      values.pop_back();
    }
    const bool twice = random.below(3) == 0;
    backward(loss, {.retain_graph = twice});
    if (twice) backward(loss);
    return w.grad().to_vector<float>();
  }

 private:
  /// Takes some of `values`, of which a few are read again later, and adds one.
  static void call(RandomStream& random, std::vector<Tensor>& values, const Tensor& w) {
    auto any = [&]() -> Tensor& { return values[random.below(values.size())]; };
    const bool reads_on = values.size() < 5 && random.below(3) == 0;
    Tensor& place = any();
    Tensor x = reads_on ? place : std::move(place);
    Tensor y = result(random, std::move(x), w, values);
    if (reads_on)
      values.push_back(std::move(y));
    else
      place = std::move(y);
  }

  static Tensor result(RandomStream& random, Tensor x, const Tensor& w,
                       const std::vector<Tensor>& values) {
    const Tensor& back = values.back();
    switch (random.below(9)) {
      case 0:
        return tanh(std::move(x));
      case 1:
        return relu(matmul(std::move(x), w));
      case 2:
        return back.defined() ? tanh(add(std::move(x), back)) : sigmoid(std::move(x));
      case 3:
        return mul(x, sigmoid(x));
      case 4:
        return dropout(std::move(x), {.p = 0.3});
      case 5:
        return reshape(tanh(reshape(std::move(x), {-1})), {kSide, kSide});
      case 6:
        return autograd::checkpoint(
            [&](Tensor t) { return tanh(matmul(sigmoid(std::move(t)), w)); }, std::move(x));
      case 7:
        return permute(exp(neg(relu(std::move(x)))), {1, 0});
      default:
        return neg(std::move(x));
    }
  }
};

}  // namespace

TEST_CASE("random programs have the same bits within budgets that nobody planned for") {
  int64_t dropped = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    CAPTURE(seed);
    const Program program{seed, seed % 2 == 0};
    auto account = direct_account();
    memory::AccountScope of(account);
    const std::vector<float> expected = program.run();
    const int64_t most = account->stats().peak_live;
    for (int64_t share : {9, 7, 5}) {
      CAPTURE(share);
      const int64_t budget = most * share / 10;
      account->reset_peak();
      autograd::DynamicEviction eviction({.budget = budget});
      memory::ReclaimerScope reclaiming(*account, &eviction);
      autograd::SavePolicyScope saving(&eviction);
      try {
        const bool is_same = program.run() == expected;
        CHECK(is_same);
      } catch (const memory::OutOfMemory&) {
        ++refused;
      }
      CHECK(account->stats().peak_live <= budget);
      CHECK(account->stats().live == 0);
      dropped += eviction.counts().dropped;
    }
  }
  CHECK(dropped > 1000);
  CHECK(refused < 24);  // of 72
}
