#include "brim/optim/sgd.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "brim/base/parallel.h"

using namespace brim;
using optim::Sgd;
using optim::SgdOptions;

namespace {

constexpr int kSteps = 5;
constexpr double kRate = 0.1;

Tensor leaf(const Shape& shape, uint64_t key, Dtype dtype = Dtype::float32) {
  Tensor t = uniform(shape, -1, 1, RandomKey{key}, {.dtype = dtype});
  t.set_requires_grad();
  return t;
}

Tensor gradient(const Tensor& like, uint64_t step) {
  return uniform(like.shape(), -2, 2, RandomKey{100 + step}, {.dtype = like.dtype()});
}

// PyTorch's formulas as its documentation has them, one operation after the other in type T.
template <class T>
std::vector<T> by_hand(const Tensor& start, const SgdOptions& o) {
  std::vector<T> p = start.to_vector<T>(), buffer;
  T rate = static_cast<T>(kRate), momentum = static_cast<T>(o.momentum);
  T decay = static_cast<T>(o.weight_decay);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<T> g = gradient(start, static_cast<uint64_t>(step)).to_vector<T>();
    for (size_t i = 0; i < p.size(); ++i) g[i] = g[i] + decay * p[i];
    if (o.momentum != 0) {
      bool first = buffer.empty();
      if (first) buffer = g;
      for (size_t i = 0; i < p.size(); ++i) {
        if (!first) buffer[i] = momentum * buffer[i] + g[i];
        g[i] = o.nesterov ? g[i] + momentum * buffer[i] : buffer[i];
      }
    }
    for (size_t i = 0; i < p.size(); ++i) p[i] = p[i] - rate * g[i];
  }
  return p;
}

std::vector<double> by_sgd(const Tensor& parameter, const SgdOptions& options) {
  Sgd sgd({{"p", parameter}}, options);
  for (int step = 0; step < kSteps; ++step) {
    parameter.set_grad(gradient(parameter, static_cast<uint64_t>(step)));
    sgd.step(kRate);
  }
  CHECK(sgd.steps() == kSteps);
  return parameter.to_vector<double>();
}

const SgdOptions kVariants[] = {
    {},
    {.weight_decay = 0.01},
    {.momentum = 0.9},
    {.momentum = 0.9, .weight_decay = 0.01},
    {.momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
};

template <class T>
double rms_error(const std::vector<T>& got, const std::vector<double>& exact) {
  double sum = 0;
  for (size_t i = 0; i < exact.size(); ++i)
    sum += std::pow(static_cast<double>(got[i]) - exact[i], 2);
  return std::sqrt(sum / static_cast<double>(exact.size()));
}

}  // namespace

TEST_CASE("sgd: float64 agrees with PyTorch's formulas") {
  for (const SgdOptions& options : kVariants) {
    Tensor p = leaf({50, 21}, 1, Dtype::float64);
    std::vector<double> expected = by_hand<double>(p, options), got = by_sgd(p, options);
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) < 1e-14);
  }
}

TEST_CASE("sgd: float32 errs less than one rounding after each operation") {
  for (const SgdOptions& options : kVariants) {
    CAPTURE(options.momentum);
    CAPTURE(options.nesterov);
    CAPTURE(options.weight_decay);
    Tensor p = leaf({300, 501}, 1);
    std::vector<double> exact = by_hand<double>(p, options);
    std::vector<float> rounded = by_hand<float>(p, options);
    CHECK(rms_error(by_sgd(p, options), exact) <= rms_error(rounded, exact));
  }
}

TEST_CASE("sgd: the same bits with any number of threads") {
  int before = num_threads();
  SgdOptions options{.momentum = 0.9, .nesterov = true, .weight_decay = 0.01};
  set_num_threads(1);
  std::vector<double> one = by_sgd(leaf({300, 501}, 1), options);
  set_num_threads(3);
  std::vector<double> three = by_sgd(leaf({300, 501}, 1), options);
  set_num_threads(before);
  CHECK(one == three);
}

TEST_CASE("sgd: weight decay only where it was asked for") {
  Tensor a = leaf({3, 2}, 1), b = leaf({3}, 2);
  std::vector<float> a_before = a.to_vector<float>(), b_before = b.to_vector<float>();
  Sgd sgd({{"a", a}, {"b", b}},
          {.weight_decay = 1, .groups = {{.name = "b", .prefixes = {"b"}, .weight_decay = 0}}});
  a.set_grad(zeros_like(a));
  b.set_grad(zeros_like(b));
  sgd.step(0.5);
  for (size_t i = 0; i < a_before.size(); ++i) CHECK(a.to_vector<float>()[i] == a_before[i] / 2);
  CHECK(b.to_vector<float>() == b_before);
}

TEST_CASE("sgd: a loss scale that is a power of two changes nothing") {
  Tensor a = leaf({40}, 1), b = leaf({40}, 1);
  SgdOptions options{.momentum = 0.9, .weight_decay = 0.01};
  Sgd one({{"p", a}}, options), scaled({{"p", b}}, options);
  for (uint64_t step = 0; step < 3; ++step) {
    Tensor g = gradient(a, step), large = clone(g);
    for (float& v : std::span(large.data<float>(), 40)) v *= 1024;
    a.set_grad(g);
    b.set_grad(large);
    one.step(0.1);
    scaled.step({.rate = 0.1, .loss_scale = 1024});
  }
  CHECK(a.to_vector<float>() == b.to_vector<float>());
}

TEST_CASE("sgd: momentum is state of its own category, made at once, and by name") {
  Tensor a = leaf({100}, 1), b = leaf({7, 3}, 2);
  auto optimizer_bytes = [] {
    return memory::account(Device::cpu())
        ->stats()
        .by_category[static_cast<size_t>(memory::Category::optimizer)];
  };
  int64_t before = optimizer_bytes();
  Sgd sgd({{"a", a}, {"b", b}}, {.momentum = 0.9});
  // Momentum, and 64 bytes each for the scalars and the sums of squares.
  CHECK(optimizer_bytes() - before == 448 + 128 + 64 + 64);
  std::vector<nn::NamedTensor> state = sgd.named_state();
  REQUIRE(state.size() == 2);
  CHECK(state[0].name == "momentum.a");
  CHECK(state[1].name == "momentum.b");
  CHECK(state[1].tensor.shape() == Shape{7, 3});
  a.set_grad(gradient(a, 0));
  sgd.step(0.1);
  CHECK(state[0].tensor.to_vector<float>() == a.grad().to_vector<float>());
  CHECK(Sgd({{"a", a}}).named_state().empty());
}

TEST_CASE("sgd: going on from kept state gives the same bits") {
  SgdOptions options{.momentum = 0.9, .weight_decay = 0.01};
  Tensor whole = leaf({60}, 1), half = leaf({60}, 1);
  Sgd one({{"p", whole}}, options), first({{"p", half}}, options);
  for (uint64_t step = 0; step < 4; ++step) {
    whole.set_grad(gradient(whole, step));
    one.step(0.1);
  }
  for (uint64_t step = 0; step < 2; ++step) {
    half.set_grad(gradient(half, step));
    first.step(0.1);
  }
  Sgd second({{"p", half}}, options);
  copy_into(second.named_state()[0].tensor, first.named_state()[0].tensor);
  second.set_steps(first.steps());
  for (uint64_t step = 2; step < 4; ++step) {
    half.set_grad(gradient(half, step));
    second.step(0.1);
  }
  CHECK(second.steps() == 4);
  CHECK(half.to_vector<float>() == whole.to_vector<float>());
}

TEST_CASE("sgd: options out of range are named") {
  std::vector<nn::NamedTensor> p{{"p", leaf({3}, 1)}};
  double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH_AS(Sgd(p, {.momentum = -0.5}),
                       doctest::Contains("sgd: expected a momentum from 0 to"), ValueError);
  CHECK_THROWS_AS(Sgd(p, {.momentum = 1}), ValueError);
  CHECK_THROWS_AS(Sgd(p, {.momentum = nan}), ValueError);
  CHECK_THROWS_WITH_AS(Sgd(p, {.weight_decay = -1}),
                       "sgd: expected a weight decay of at least 0, got -1", ValueError);
  CHECK_THROWS_WITH_AS(Sgd(p, {.nesterov = true}),
                       "sgd: expected a positive momentum for Nesterov's, got 0", ValueError);
}

TEST_CASE("sgd: empty parameters and the meta device") {
  Tensor none = leaf({0, 3}, 1);
  Sgd sgd({{"none", none}}, {.momentum = 0.9});
  none.set_grad(zeros_like(none));
  CHECK_NOTHROW(sgd.step(0.1));
  Tensor meta = empty({1000, 1000}, {.device = Device::meta()}).set_requires_grad();
  Sgd planned({{"meta", meta}}, {.momentum = 0.9});
  meta.set_grad(empty_like(meta));
  CHECK_NOTHROW(planned.step(0.1));
  CHECK(planned.steps() == 1);
}
