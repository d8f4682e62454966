#include "brim/optim/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "brim/autograd/backward.h"
#include "brim/nn/creation.h"
#include "brim/nn/layers.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/cross_entropy.h"
#include "brim/optim/adamw.h"
#include "brim/optim/ema.h"
#include "brim/optim/require_kernel.h"
#include "brim/optim/sgd.h"

using namespace brim;
using optim::Sgd;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor leaf(const std::vector<float>& values) {
  Tensor t = from_vector<float>(values, {static_cast<int64_t>(values.size())});
  t.set_requires_grad();
  return t;
}

struct Two {
  Tensor a = leaf({1, 2}), b = leaf({3, 4, 5});
  Sgd sgd{{{"a", a}, {"b", b}}, {.momentum = 0.9}};
  void require_unchanged() const {
    CHECK(a.to_vector<float>() == std::vector<float>{1, 2});
    CHECK(b.to_vector<float>() == std::vector<float>{3, 4, 5});
    CHECK(sgd.named_state()[0].tensor.to_vector<float>() == std::vector<float>{0, 0});
    CHECK(sgd.steps() == 0);
  }
};

}  // namespace

TEST_CASE("optimizer: what cannot be applied is refused by prepare, and nothing changes") {
  Two p;
  CHECK_THROWS_WITH_AS(p.sgd.prepare({.rate = 0.1}),
                       "sgd: no parameter has a gradient: call backward first", ValueError);
  p.a.set_grad(ones({2}));
  p.b.set_grad(ones({2}));
  CHECK_THROWS_WITH_AS(p.sgd.prepare({.rate = 0.1}),
                       "sgd: expected a gradient of shape [3] for 'b', got [2]", ShapeError);
  p.b.set_grad(ones({3}, {.dtype = Dtype::float64}));
  CHECK_THROWS_AS(p.sgd.prepare({.rate = 0.1}), DtypeError);
  p.b.set_grad(empty({3}, {.device = Device::meta()}));
  CHECK_THROWS_AS(p.sgd.prepare({.rate = 0.1}), DeviceError);
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    p.b.set_grad(from_vector<float>({1, bad, 1}, {3}));
    CHECK_THROWS_WITH_AS(p.sgd.prepare({.rate = 0.1}),
                         "sgd: the gradient of 'b' is not finite: it has an infinity or a NaN",
                         ValueError);
  }
  p.b.set_grad(from_vector<float>({1, std::numeric_limits<float>::max(), 1}, {3}));
  CHECK_THROWS_WITH_AS(p.sgd.prepare({.rate = -0.1}),
                       "sgd: expected a learning rate of at least 0, got -0.1", ValueError);
  CHECK_THROWS_AS(p.sgd.prepare({.rate = kInfinity}), ValueError);
  CHECK_THROWS_AS(p.sgd.prepare({.rate = 0.1, .loss_scale = 0}), ValueError);
  p.sgd.commit();  // the last prepare threw: there is nothing to apply
  p.require_unchanged();
  CHECK_NOTHROW(p.sgd.prepare({.rate = 0.1}));
  p.sgd.cancel();
  p.sgd.commit();
  p.require_unchanged();
}

TEST_CASE("optimizer: a failed prepare forgets the one before it") {
  Two p;
  p.a.set_grad(ones({2}));
  p.sgd.prepare({.rate = 0.1});
  CHECK_THROWS(p.sgd.prepare({.rate = -1}));
  p.sgd.commit();
  p.require_unchanged();
}

TEST_CASE("optimizer: finite checks see every element and dtype, clipped or not") {
  for (const Dtype dtype : {Dtype::float32, Dtype::float64})
    for (const double value : {kInfinity, 1.0})
      for (const int64_t at : {0, 1, 99999, 200000}) {
        Tensor t = zeros({200001}, {.dtype = dtype}).set_requires_grad();
        Sgd sgd({{"t", t}});
        const Tensor g = full(t.shape(), 2, {.dtype = dtype});
        t.set_grad(g);
        const optim::UpdateOptions options{.rate = 1, .clip = {.value = value}};
        CHECK_NOTHROW(sgd.prepare(options));
        CHECK(*sgd.gradient_norm() == std::sqrt(200001.0) * std::min(value, 2.0));
        for (const double bad : {std::nan(""), kInfinity, -kInfinity}) {
          if (dtype == Dtype::float32)
            g.data<float>()[at] = static_cast<float>(bad);
          else
            g.data<double>()[at] = bad;
          CHECK_THROWS_AS(sgd.prepare(options), ValueError);
        }
        CHECK_NOTHROW(sgd.prepare({.rate = 1, .check_finite = false}));
      }
}

TEST_CASE("optimizer: a parameter without gradient is left as it is") {
  Two p;
  p.a.set_grad(ones({2}));
  p.sgd.step(0.5);
  CHECK(p.a.to_vector<float>() == std::vector<float>{0.5f, 1.5f});
  CHECK(p.b.to_vector<float>() == std::vector<float>{3, 4, 5});
  CHECK(p.sgd.steps() == 1);
}

TEST_CASE("optimizer: a strided gradient is taken in its order") {
  Tensor t = zeros({2, 2});
  t.set_requires_grad();
  Sgd sgd({{"t", t}});
  Tensor g = from_vector<float>({1, 2, 3, 4}, {2, 2});
  t.set_grad(Tensor(g.storage(), {{2, 2}, {1, 2}, 0, Dtype::float32}));  // transposed
  sgd.step(1);
  CHECK(t.to_vector<float>() == std::vector<float>{-1, -3, -2, -4});
}

TEST_CASE("optimizer: commit asks for no bytes, prepare of a real model neither") {
  auto account = memory::capped_host_account("caching");
  memory::AccountScope scope(account);
  auto model = nn::make_model("resnet20", {.classes = 10});
  Sgd sgd(model->named_parameters(), {.momentum = 0.9, .weight_decay = 1e-4});
  backward(cross_entropy((*model)(uniform({2, 32, 32, 3}, -1, 1, RandomKey{1})),
                         from_vector<int64_t>({1, 2}, {2})));
  int64_t requests = account->stats().requests;
  sgd.prepare({.rate = 0.1});
  CHECK(account->stats().requests == requests);
  account->fail_nth(1);
  sgd.commit();
  account->fail_nth(0);
  CHECK(account->stats().requests == requests);
  CHECK(sgd.steps() == 1);
}

TEST_CASE("optimizer: an update is a write that the tape notices") {
  Two p;
  uint32_t before = p.a.storage()->version();
  p.a.set_grad(ones({2}));
  p.sgd.step(0.1);
  CHECK(p.a.storage()->version() == before + 1);
  CHECK(std::string(p.a.storage()->last_writer()) == "sgd");
}

TEST_CASE("optimizer: zero_grad drops gradients and their bytes") {
  Two p;
  p.a.set_grad(ones({2}));
  std::weak_ptr<Storage> storage = p.a.grad().storage();
  p.sgd.step(0.1);
  p.sgd.zero_grad();
  CHECK_FALSE(p.a.grad().defined());
  CHECK(storage.expired());
}

TEST_CASE("optimizer: parameters that cannot be optimized") {
  auto wanted = [](Dtype dtype, Device device = Device::cpu()) {
    return empty({2}, {.dtype = dtype, .device = device}).set_requires_grad();
  };
  CHECK_THROWS_AS(Sgd({{"h", wanted(Dtype::float16)}}), DtypeError);
  CHECK_THROWS_AS(
      Sgd({{"a", wanted(Dtype::float32)}, {"b", wanted(Dtype::float32, Device::meta())}}),
      DeviceError);
  CHECK_THROWS_AS(Two().sgd.set_steps(-1), ValueError);
  Tensor shared = wanted(Dtype::float32);
  CHECK_THROWS_WITH_AS(Sgd({{"a", shared}, {"b", shared}}),
                       "sgd: 'a' and 'b' are the same parameter", ValueError);
}

TEST_CASE("optimizer: a device without the kernels of updates is refused before the first one") {
  CHECK_NOTHROW(optim::require_kernel("sgd", kernel::sgd.name, Device::cpu(), Dtype::float64));
  CHECK_NOTHROW(optim::require_kernel("sgd", kernel::sgd.name, Device::meta(), Dtype::float32));
  CHECK_THROWS_WITH_AS(
      optim::require_kernel("sgd", "no_such_kernel", Device::cuda(1), Dtype::float32),
      "sgd: cannot run on cuda:1: there is no kernel 'no_such_kernel' for float32", DeviceError);
  CHECK_THROWS_AS(optim::require_kernel("sgd", "no_such_kernel", Device::meta(), Dtype::float32),
                  DeviceError);
  // An optimizer asks for its own, by name.
  struct Other final : optim::Optimizer {
    explicit Other(const Tensor& a) : Optimizer("other", {{"a", a}}, 0, {}) {
      require_kernel("no_such_kernel");
    }
    void update(size_t, const Gradient&, const Tensor&) noexcept override {}
  };
  CHECK_THROWS_WITH_AS(Other(leaf({1})),
                       "other: cannot run on cpu: there is no kernel 'no_such_kernel' for float32",
                       DeviceError);
}

TEST_CASE("optimizer: frozen parameters are left out, and there must be others") {
  Tensor a = leaf({1, 2}), frozen = zeros({5000});
  auto account = memory::account(Device::cpu());
  int64_t before = account->stats().live;
  Sgd sgd({{"frozen", frozen}, {"a", a}}, {.momentum = 0.9});
  CHECK(account->stats().live - before < 5000);
  REQUIRE(sgd.parameters().size() == 1);
  CHECK(sgd.parameters()[0].name == "a");
  CHECK(sgd.named_state().size() == 1);
  frozen.set_grad(ones({5000}));  // one's own doing: not an update
  a.set_grad(ones({2}));
  sgd.step(0.5);
  CHECK(a.to_vector<float>() == std::vector<float>{0.5f, 1.5f});
  CHECK(frozen.to_vector<float>() == std::vector<float>(5000, 0));
  for (const auto& none : {std::vector<nn::NamedTensor>{}, {{"frozen", frozen}}})
    CHECK_THROWS_WITH_AS(Sgd{none},
                         doctest::Contains("sgd: expected a parameter that asks for a gradient"),
                         ValueError);
}

TEST_CASE("optimizer: trains a model") {
  auto model = nn::make_model("resnet20", {.classes = 4, .seed = 1});
  Sgd sgd(model->named_parameters(), {.momentum = 0.9});
  Tensor x = uniform({8, 32, 32, 3}, -1, 1, RandomKey{3});
  Tensor labels = from_vector<int64_t>({0, 1, 2, 3, 0, 1, 2, 3}, {8});
  double first = 0, last = 0;
  for (int step = 0; step < 15; ++step) {
    Tensor loss = cross_entropy((*model)(x), labels);
    last = loss.item<double>();
    if (step == 0) first = last;
    backward(loss);
    sgd.step(0.02);
    sgd.zero_grad();
  }
  CHECK(first > 1);
  CHECK(last < 0.1 * first);
}
