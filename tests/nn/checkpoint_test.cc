// What a checkpointed function may take, give and throw, and what of it stays.
#include "brim/autograd/checkpoint.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "brim/autograd/backward.h"
#include "brim/autograd/free_recomputation.h"
#include "brim/memory/account.h"
#include "brim/ops/ops.h"
#include "brim/tests/support/replays.h"

using namespace brim;
using namespace brim::testing;
using autograd::checkpoint;

TEST_CASE("results that are read outside stay, those that are not do not") {
  Tensor w = uniform({64, 64}, -1, 1, {1}).set_requires_grad();
  Tensor x = uniform({64, 64}, -1, 1, {2});
  auto [a, b] = checkpoint(
      [&](Tensor t) {
        Tensor first = tanh(matmul(t, w));
        Tensor second = sigmoid(matmul(first, w));
        return std::pair(first, second);
      },
      x);
  // mul saves b and exp(a); exp saves its own result, so nobody outside reads a.
  std::weak_ptr<Storage> of_a = a.storage(), of_b = b.storage();
  Tensor loss = sum(mul(exp(std::move(a)), std::move(b)));
  CHECK(of_a.expired());
  CHECK(!of_b.expired());
  backward(loss);
  Tensor again = w.grad();
  w.set_grad({});
  Tensor first = tanh(matmul(x, w)), second = sigmoid(matmul(first, w));
  backward(sum(mul(exp(first), second)));
  CHECK(again.to_vector<float>() == w.grad().to_vector<float>());
}

TEST_CASE("results may be vectors, pairs and tuples of tensors, and of other things") {
  Tensor w = uniform({8, 8}, -1, 1, {1}).set_requires_grad();
  auto made = [&] { return tanh(tanh(w)); };
  auto gradient_of = [&](Tensor y, bool runs_again) {
    Replays replays;
    backward(sum(std::move(y)));
    CHECK((replays.count() > 0) == runs_again);
    std::vector<float> gradient = w.grad().to_vector<float>();
    w.set_grad({});
    return gradient;
  };
  const std::vector<float> expected = gradient_of(made(), false);
  using Pair = std::pair<int, Tensor>;
  CHECK(gradient_of(checkpoint([&] { return std::vector<Tensor>{made()}; })[0], true) == expected);
  CHECK(gradient_of(checkpoint([&] { return Pair(3, made()); }).second, true) == expected);
  auto nested = checkpoint([&] { return std::tuple(Pair(3, made()), std::string("three")); });
  CHECK(std::get<1>(nested) == "three");
  CHECK(gradient_of(std::exchange(std::get<0>(nested).second, Tensor()), true) == expected);
  Tensor aside;
  const int number = checkpoint([&] {
    aside = made();
    return 7;
  });
  CHECK(number == 7);
  CHECK(gradient_of(std::move(aside), true) == expected);
}

TEST_CASE("inputs that want no gradient, other arguments, and functions without tensors in") {
  Tensor w = uniform({8, 8}, -1, 1, {1}).set_requires_grad();
  Tensor mask = uniform({8, 8}, 0, 1, {2});
  auto function = [](const Tensor& weight, const Tensor& by, int times, const std::string& kind) {
    Tensor y = weight;
    for (int i = 0; i < times; ++i) y = kind == "tanh" ? tanh(mul(y, by)) : y;
    return y;
  };
  backward(sum(function(w, mask, 3, "tanh")));
  const std::vector<float> expected = w.grad().to_vector<float>();
  w.set_grad({});
  backward(sum(checkpoint(function, w, mask, 3, std::string("tanh"))));
  CHECK(w.grad().to_vector<float>() == expected);
  w.set_grad({});
  backward(sum(checkpoint([&] { return function(w, mask, 3, "tanh"); })));
  CHECK(w.grad().to_vector<float>() == expected);
}

TEST_CASE("a chain of a hundred thousand calls is made again without recursion") {
  Tensor w = full({1}, 0.5).set_requires_grad();
  Tensor y = checkpoint(
      [](Tensor x) {
        for (int i = 0; i < 100'000; ++i) x = neg(std::move(x));
        return mul(exp(x), x);
      },
      w);
  backward(sum(std::move(y)));
  CHECK(w.grad().item<double>() == doctest::Approx(std::exp(0.5) * 1.5).epsilon(1e-6));
}

TEST_CASE("an exception in a checkpointed function leaves nothing behind, however deep") {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope of(account);
  Tensor w = uniform({8, 8}, -1, 1, {1}).set_requires_grad();
  const int64_t before = account->stats().live;
  auto throwing = [](Tensor t) {
    Tensor y = tanh(tanh(std::move(t)));
    if (y.defined()) throw std::runtime_error("no");
    return y;
  };
  auto deeper = [&](Tensor t) { return checkpoint(throwing, tanh(std::move(t))); };
  CHECK_THROWS_AS(checkpoint(throwing, w), std::runtime_error);
  CHECK_THROWS_AS(checkpoint(deeper, w), std::runtime_error);
  CHECK(account->stats().live == before);
  CHECK(autograd::save_policy() == nullptr);
  {
    autograd::FreeRecomputation around;
    autograd::SavePolicyScope scope(&around);
    CHECK_THROWS_AS(checkpoint(deeper, w), std::runtime_error);
    CHECK(autograd::save_policy() == &around);
  }
  Replays replays;
  backward(sum(tanh(tanh(w))));
  CHECK(replays.count() == 0);  // no segment is open
}
