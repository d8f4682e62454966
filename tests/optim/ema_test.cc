// Averages: their formula, what they hold, and that the scope gives back what it took.
#include "brim/optim/ema.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/base/parallel.h"
#include "brim/nn/layers.h"

using namespace brim;
using optim::Ema;
using optim::EmaScope;

namespace {

struct Net final : nn::Module {
  nn::Linear fc{3, 2};
  nn::BatchNorm2d bn{2};
  Net() {
    register_modules({{"fc", fc}, {"bn", bn}});
    nn::initialize(*this, 1);
  }
  Tensor forward(Tensor x) override { return bn(fc(std::move(x))); }
};

std::vector<std::string> names_of(const Ema& ema) {
  std::vector<std::string> names;
  for (const nn::NamedTensor& state : ema.named_state()) names.push_back(state.name);
  return names;
}

// The average of p = 0, 1, 4, 9, ... after `updates`, by the formula in double.
double by_hand(int updates, double decay, bool warmup) {
  double average = 0;
  for (int n = 0; n < updates; ++n) {
    double own = n == 0 ? 0 : warmup ? std::min(decay, (1.0 + n) / (10.0 + n)) : decay;
    average = own * average + (1 - own) * n * n;
  }
  return average;
}

}  // namespace

TEST_CASE("ema: the first update copies, later ones move by one minus the decay") {
  for (bool warmup : {false, true}) {
    CAPTURE(warmup);
    Net net;
    Ema ema(net, {.decay = 0.75, .warmup = warmup});
    for (int n = 0; n < 30; ++n) {
      fill(net.fc.bias, n * n);
      ema.update();
      // Each update rounds the difference and the sum, and forgets a quarter of what was.
      double expected = by_hand(n + 1, 0.75, warmup);
      CHECK(ema.named_state()[1].tensor.to_vector<float>()[0] ==
            doctest::Approx(expected).epsilon(8 * 0x1p-24));
    }
    CHECK(ema.updates() == 30);
  }
}

TEST_CASE("ema: what was there before the first update does not count, were it NaN") {
  Net net;
  fill(net.fc.bias, std::nan(""));
  Ema ema(net);
  fill(net.fc.bias, 3);
  ema.update();
  CHECK(ema.named_state()[1].tensor.to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("ema: parameters that train and buffers of modules in training have averages") {
  using Names = std::vector<std::string>;
  Net net;
  CHECK(names_of(Ema(net)) == Names{"ema.fc.weight", "ema.fc.bias", "ema.bn.weight", "ema.bn.bias",
                                    "ema.bn.running_mean", "ema.bn.running_var"});
  CHECK(names_of(Ema(net, {.buffers = false})) ==
        Names{"ema.fc.weight", "ema.fc.bias", "ema.bn.weight", "ema.bn.bias"});
  net.freeze("bn");
  CHECK(names_of(Ema(net)) == Names{"ema.fc.weight", "ema.fc.bias"});
}

TEST_CASE("ema: averages are optimizer's bytes, made at once, and updates ask for none") {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  Net net;
  auto live = [&] {
    return account->stats().by_category[static_cast<size_t>(memory::Category::optimizer)];
  };
  CHECK(live() == 0);
  {
    Ema ema(net);
    CHECK(live() == (6 + 1) * 64);  // and the share that they move by
    account->fail_nth(1);
    ema.update();
    ema.update();
    { EmaScope averaged(ema); }
    account->fail_nth(0);
    CHECK(live() == (6 + 1) * 64);
  }
  CHECK(live() == 0);
}

TEST_CASE("ema: inside the scope the model has the averages, afterwards its own bits") {
  Net net;
  Ema ema(net, {.decay = 0.5});
  ema.update();
  std::vector<float> first = net.fc.weight.to_vector<float>();
  fill(net.fc.weight, 2);
  fill(net.bn.running_mean, 4);
  ema.update();
  std::vector<float> average = ema.named_state()[0].tensor.to_vector<float>();
  try {
    EmaScope averaged(ema);
    CHECK(ema.in_use());
    CHECK(net.fc.weight.to_vector<float>() == average);
    for (size_t i = 0; i < first.size(); ++i)
      CHECK(average[i] == doctest::Approx((first[i] + 2) / 2).epsilon(4 * 0x1p-24));
    CHECK(net.bn.running_mean.to_vector<float>() == std::vector<float>{2, 2});
    CHECK_THROWS_WITH_AS(EmaScope{ema}, "ema: the averages are in the model's place already",
                         ValueError);
    throw std::runtime_error("in the middle of an evaluation");
  } catch (const std::runtime_error&) {
  }
  CHECK_FALSE(ema.in_use());
  CHECK(net.fc.weight.to_vector<float>() == std::vector<float>(6, 2));
  CHECK(net.bn.running_mean.to_vector<float>() == std::vector<float>{4, 4});
  CHECK(ema.named_state()[0].tensor.to_vector<float>() == average);
}

TEST_CASE(
    "ema: a tensor that two members share has one average, and its training value comes back") {
  struct Tied final : nn::Module {
    nn::Linear first{3, 3}, second{3, 3};
    Tied() {
      register_modules({{"first", first}, {"second", second}});
      nn::initialize(*this, 1);
      second.weight = first.weight;
    }
    Tensor forward(Tensor x) override { return second(first(std::move(x))); }
  } net;
  Ema ema(net, {.decay = 0.5});
  CHECK(names_of(ema) ==
        std::vector<std::string>{"ema.first.weight", "ema.first.bias", "ema.second.bias"});
  fill(net.first.weight, 0);
  ema.update();
  fill(net.first.weight, 2);
  ema.update();
  {
    EmaScope averaged(ema);
    CHECK(net.second.weight.to_vector<float>() == std::vector<float>(9, 1));
  }
  CHECK(net.first.weight.to_vector<float>() == std::vector<float>(9, 2));
}

TEST_CASE("ema: the same bits with any number of threads") {
  auto with_threads = [](int threads) {
    int before = num_threads();
    set_num_threads(threads);
    struct Large final : nn::Module {
      nn::Linear fc{500, 701};
      Large() { register_modules({{"fc", fc}}); }
      Tensor forward(Tensor x) override { return x; }
    } net;
    nn::initialize(net, 1);
    Ema ema(net, {.decay = 0.9});
    for (uint64_t n = 0; n < 3; ++n) {
      fill_uniform(net.fc.weight, -1, 1, RandomKey{n});
      ema.update();
    }
    set_num_threads(before);
    return ema.named_state()[0].tensor.to_vector<float>();
  };
  auto one = with_threads(1);
  CHECK(with_threads(2) == one);
  CHECK(with_threads(3) == one);
}

TEST_CASE("ema: going on from kept state gives the same bits") {
  Net net;
  Ema whole(net, {.warmup = true}), first(net, {.warmup = true});
  auto move = [&](Ema& ema, int n) {
    fill(net.fc.bias, n);
    ema.update();
  };
  for (int n = 0; n < 4; ++n) move(whole, n);
  for (int n = 0; n < 2; ++n) move(first, n);
  Ema second(net, {.warmup = true});
  for (size_t i = 0; i < 6; ++i)
    copy_into(second.named_state()[i].tensor, first.named_state()[i].tensor);
  second.set_updates(first.updates());
  for (int n = 2; n < 4; ++n) move(second, n);
  CHECK(second.named_state()[1].tensor.to_vector<float>() ==
        whole.named_state()[1].tensor.to_vector<float>());
}

TEST_CASE("ema: options out of range are named") {
  Net net;
  CHECK_THROWS_WITH_AS(Ema(net, {.decay = 1}), doctest::Contains("ema: expected a decay from 0"),
                       ValueError);
  CHECK_THROWS_AS(Ema(net, {.decay = -0.1}), ValueError);
  CHECK_THROWS_AS(Ema(net).set_updates(-1), ValueError);
}
