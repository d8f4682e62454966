// AdamW beside the golden values of golden_test.cc: its state, its edges, its bits.
#include "brim/optim/adamw.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "brim/base/parallel.h"

using namespace brim;
using optim::AdamW;
using optim::AdamWOptions;

namespace {

Tensor leaf(const Shape& shape, uint64_t key, Dtype dtype = Dtype::float32) {
  return uniform(shape, -1, 1, RandomKey{key}, {.dtype = dtype}).set_requires_grad();
}

Tensor gradient(const Tensor& like, uint64_t step) {
  return uniform(like.shape(), -2, 2, RandomKey{100 + step}, {.dtype = like.dtype()});
}

void run(AdamW& adamw, const Tensor& parameter, uint64_t begin, uint64_t end) {
  for (uint64_t step = begin; step < end; ++step) {
    parameter.set_grad(gradient(parameter, step));
    adamw.step({.rate = 0.01, .clip = {.norm = 100, .value = 1.5}});
  }
}

}  // namespace

TEST_CASE("adamw: the first step is the rate, whatever the size of the gradient") {
  Tensor p = zeros({3}).set_requires_grad();
  AdamW adamw({{"p", p}}, {.weight_decay = 0});
  p.set_grad(from_vector<float>({1e-3f, -7, 1e4f}, {3}));
  adamw.step(0.25);
  // Both corrections cancel: m / (1 - beta1) = g and v / (1 - beta2) = g^2, each after three
  // roundings; epsilon is 1e-5 of the smallest.
  const float expected[] = {-0.25f / (1 + 1e-5f), 0.25f, -0.25f};
  for (size_t i = 0; i < 3; ++i)
    CHECK(p.to_vector<float>()[i] == doctest::Approx(expected[i]).epsilon(8 * 0x1p-24));
}

TEST_CASE("adamw: decay shrinks by rate times decay, and apart from the gradient") {
  Tensor p = ones({2}).set_requires_grad();
  AdamW adamw({{"p", p}}, {.weight_decay = 0.5});
  p.set_grad(zeros({2}));
  adamw.step(0.5);
  CHECK(p.to_vector<float>() == std::vector<float>{0.75f, 0.75f});
  for (const nn::NamedTensor& state : adamw.named_state())
    CHECK(state.tensor.to_vector<float>() == std::vector<float>{0, 0});
}

TEST_CASE("adamw: the same bits with any number of threads") {
  auto with_threads = [](int threads) {
    int before = num_threads();
    set_num_threads(threads);
    Tensor p = leaf({300, 501}, 1);
    AdamW adamw({{"p", p}});
    run(adamw, p, 0, 4);
    set_num_threads(before);
    return p.to_vector<float>();
  };
  auto one = with_threads(1);
  CHECK(with_threads(2) == one);
  CHECK(with_threads(3) == one);
}

TEST_CASE("adamw: both averages are state of their own category, made at once, and by name") {
  Tensor a = leaf({100}, 1), b = leaf({7, 3}, 2);
  auto optimizer_bytes = [] {
    return memory::account(Device::cpu())
        ->stats()
        .by_category[static_cast<size_t>(memory::Category::optimizer)];
  };
  int64_t before = optimizer_bytes();
  AdamW adamw({{"a", a}, {"b", b}});
  // Both averages of each, and 64 bytes each for the scalars and the sums of squares.
  CHECK(optimizer_bytes() - before == 2 * (448 + 128) + 64 + 64);
  std::vector<std::string> names;
  for (const nn::NamedTensor& state : adamw.named_state()) names.push_back(state.name);
  CHECK(names ==
        std::vector<std::string>{"exp_avg.a", "exp_avg_sq.a", "exp_avg.b", "exp_avg_sq.b"});
  CHECK(adamw.named_state()[3].tensor.shape() == Shape{7, 3});
}

TEST_CASE("adamw: going on from kept state and number of updates gives the same bits") {
  Tensor whole = leaf({60}, 1), half = leaf({60}, 1);
  AdamW one({{"p", whole}}), first({{"p", half}});
  run(one, whole, 0, 6);
  run(first, half, 0, 3);
  AdamW second({{"p", half}});
  for (size_t i = 0; i < 2; ++i)
    copy_into(second.named_state()[i].tensor, first.named_state()[i].tensor);
  second.set_steps(first.steps());
  run(second, half, 3, 6);
  CHECK(half.to_vector<float>() == whole.to_vector<float>());
}

TEST_CASE("adamw: options out of range are named") {
  std::vector<nn::NamedTensor> p{{"p", leaf({3}, 1)}};
  CHECK_THROWS_WITH_AS(AdamW(p, {.beta1 = 1}), doctest::Contains("adamw: expected a beta1 from 0"),
                       ValueError);
  CHECK_THROWS_WITH_AS(AdamW(p, {.beta2 = -0.1}), doctest::Contains("beta2"), ValueError);
  CHECK_THROWS_WITH_AS(AdamW(p, {.epsilon = 0}), doctest::Contains("epsilon"), ValueError);
  CHECK_THROWS_WITH_AS(AdamW(p, {.weight_decay = std::nan("")}), doctest::Contains("weight decay"),
                       ValueError);
}

TEST_CASE("adamw: empty parameters and the meta device") {
  Tensor none = leaf({0, 3}, 1);
  AdamW adamw({{"none", none}});
  none.set_grad(zeros_like(none));
  CHECK_NOTHROW(adamw.step(0.1));
  Tensor meta = empty({1000, 1000}, {.device = Device::meta()}).set_requires_grad();
  AdamW planned({{"meta", meta}});
  meta.set_grad(empty_like(meta));
  CHECK_NOTHROW(planned.step({.rate = 0.1, .clip = {.norm = 1}}));
  CHECK(planned.steps() == 1);
  CHECK_FALSE(planned.gradient_norm().has_value());
}
