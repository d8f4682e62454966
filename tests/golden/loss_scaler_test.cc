// The loss scaler decides as PyTorch's GradScaler does, update by update: two optimizers,
// accumulation, clipping after unscaling, growth, back-off, a state that was saved.
// make_loss_scaler.py describes the series.
#include "brim/optim/loss_scaler.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "brim/autograd/backward.h"
#include "brim/ops/add.h"
#include "brim/ops/mul.h"
#include "brim/ops/sum.h"
#include "brim/optim/sgd.h"

using namespace brim;
using nlohmann::json;

namespace {

Tensor gradient_of(const json& values) {
  std::vector<float> floats;
  for (const json& value : values)
    floats.push_back(value.is_string() ? std::stof(value.get<std::string>()) : value.get<float>());
  return from_vector(floats, {4});
}

/// A parameter with an optimizer of its own.
struct Trained {
  explicit Trained(const std::vector<float>& values)
      : tensor(from_vector(values, {4}).set_requires_grad()),
        sgd({{"weight", tensor}}, {.momentum = 0.9}) {}
  void check(const json& expected) const {
    const std::vector<float> got = tensor.to_vector<float>();
    for (size_t i = 0; i < got.size(); ++i)
      CHECK(std::abs(got[i] - expected[i].get<float>()) <=
            4e-7f * std::max(1.0f, std::abs(expected[i].get<float>())));
  }

  Tensor tensor;
  optim::Sgd sgd;
};

}  // namespace

TEST_CASE("the loss scaler takes the decisions of PyTorch's GradScaler") {
  std::ifstream file("tests/golden/loss_scaler.json");
  REQUIRE(file.is_open());
  const json golden = json::parse(file);
  const optim::LossScalerOptions options{.growth_interval = golden["growth_interval"]};
  optim::LossScaler scaler(options);
  Trained a({1, -2, 0.5, 3}), b({0, 1, -1, 2});
  int64_t done = 0, overflows = 0;
  for (const json& update : golden["updates"]) {
    CAPTURE(done);
    for (const json& part : update["parts"]) {
      Tensor loss =
          add(sum(mul(a.tensor, gradient_of(part[0]))), sum(mul(b.tensor, gradient_of(part[1]))));
      backward(loss, {.grad = full(loss.shape(), scaler.scale())});
    }
    for (Trained* each : {&a, &b}) {
      optim::UpdateOptions step{.rate = 0.1};
      if (!update["clip"].is_null()) step.clip.norm = update["clip"];
      overflows += scaler.step(each->sgd, step).has_value() ? 1 : 0;
      each->sgd.zero_grad();
    }
    scaler.update();
    CHECK(scaler.scale() == update["scale"].get<double>());
    CHECK(scaler.state().finite_in_a_row == update["finite_in_a_row"].get<int64_t>());
    a.check(update["a"]);
    b.check(update["b"]);
    if (++done == golden["saved_after"].get<int64_t>()) {
      const optim::LossScalerState saved = scaler.state();
      scaler = optim::LossScaler(options);
      scaler.set_state(saved);
    }
  }
  CHECK(done == 20);
  CHECK(overflows >= 5);
}
