// An update in pieces: the bits of one in one go, and what it refuses.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "brim/optim/adamw.h"
#include "brim/optim/sgd.h"

using namespace brim;
using optim::Optimizer;

namespace {

using Make = std::unique_ptr<Optimizer> (*)(std::vector<nn::NamedTensor>);

const std::vector<Make> kOptimizers{
    [](std::vector<nn::NamedTensor> parameters) -> std::unique_ptr<Optimizer> {
      return std::make_unique<optim::Sgd>(
          std::move(parameters),
          optim::SgdOptions{.momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
    },
    [](std::vector<nn::NamedTensor> parameters) -> std::unique_ptr<Optimizer> {
      return std::make_unique<optim::AdamW>(std::move(parameters), optim::AdamWOptions{});
    },
    [](std::vector<nn::NamedTensor> parameters) -> std::unique_ptr<Optimizer> {
      return std::make_unique<optim::Sgd>(
          std::move(parameters), optim::SgdOptions{.momentum = 0.9, .state = Dtype::bfloat16});
    },
    [](std::vector<nn::NamedTensor> parameters) -> std::unique_ptr<Optimizer> {
      return std::make_unique<optim::AdamW>(std::move(parameters),
                                            optim::AdamWOptions{.state = Dtype::bfloat16});
    }};

// Parameters of different sizes; the last one never gets a gradient.
struct Set {
  explicit Set(Make make) {
    for (int64_t size : {3, 100'000, 1, 64})
      parameters.push_back(
          {"p" + std::to_string(size), uniform({size}, -1, 1, RandomKey{7}).set_requires_grad()});
    optimizer = make(parameters);
  }
  void make_gradients(uint64_t step) const {
    for (size_t i = 0; i + 1 < parameters.size(); ++i) {
      const Tensor& p = parameters[i].tensor;
      p.set_grad(uniform(p.shape(), -2, 2, RandomKey{100 * step + i}));
    }
  }
  std::vector<float> values() const {
    std::vector<float> all;
    for (const auto& tensors : {parameters, optimizer->named_state()})
      for (const nn::NamedTensor& each : tensors) {
        auto values = each.tensor.to_vector<float>();
        all.insert(all.end(), values.begin(), values.end());
      }
    return all;
  }
  const Tensor& operator[](size_t i) const { return parameters[i].tensor; }

  std::vector<nn::NamedTensor> parameters;
  std::unique_ptr<Optimizer> optimizer;
};

}  // namespace

TEST_CASE("pieces in any order give the bits of one update, its norm and its count") {
  for (Make make : kOptimizers) {
    Set whole(make), pieces(make);
    for (uint64_t step = 0; step < 3; ++step) {
      optim::UpdateOptions options{.rate = 0.1 / static_cast<double>(step + 1)};
      if (step > 0) options.clip.value = 1.5;
      whole.make_gradients(step);
      pieces.make_gradients(step);
      whole.optimizer->step(options);
      pieces.optimizer->begin_pieces(options);
      for (size_t i : {2, 0, 1}) CHECK(pieces.optimizer->update_piece(pieces[i]));
      CHECK(pieces.optimizer->pieces() == 3);
      CHECK(pieces.optimizer->steps() == static_cast<int64_t>(step));
      pieces.optimizer->end_pieces();
      CHECK(pieces.values() == whole.values());
      CHECK(pieces.optimizer->gradient_norm().value() == whole.optimizer->gradient_norm().value());
      CHECK(pieces.optimizer->steps() == whole.optimizer->steps());
      CHECK(pieces.optimizer->pieces() == 0);
    }
  }
}

TEST_CASE("what pieces cannot do is refused before the first") {
  Set set(kOptimizers[0]);
  set.make_gradients(1);
  auto before = set.values();
  Optimizer& optimizer = *set.optimizer;
  CHECK_THROWS_WITH_AS(optimizer.begin_pieces({.rate = 0.1, .clip = {.norm = 2}}),
                       "sgd: an update in pieces cannot clip to a norm of 2: it is that of all "
                       "gradients, and the first piece comes before the last gradient",
                       ValueError);
  CHECK_THROWS_AS(optimizer.begin_pieces({.rate = 0.1, .loss_scale = 2}), ValueError);
  CHECK_THROWS_AS(optimizer.begin_pieces({.rate = -1}), ValueError);
  optimizer.begin_pieces({.rate = 0.1});
  CHECK_THROWS_WITH_AS(optimizer.end_pieces(),
                       "sgd: no parameter has a gradient: call backward first", ValueError);
  CHECK_FALSE(optimizer.update_piece(zeros({3}).set_requires_grad()));  // a stranger
  CHECK(set.values() == before);
  CHECK(optimizer.steps() == 0);
}

TEST_CASE("a piece that cannot be applied leaves its parameter as it was, the others updated") {
  Set set(kOptimizers[0]);
  set.make_gradients(1);
  Optimizer& optimizer = *set.optimizer;
  optimizer.begin_pieces({.rate = 0.1});
  optimizer.update_piece(set[0]);
  auto after_first = set.values();
  CHECK_THROWS_WITH_AS(optimizer.update_piece(set[0]),
                       "sgd: 'p3' was updated in this update already", ValueError);
  CHECK_THROWS_WITH_AS(optimizer.update_piece(set[3]), "sgd: 'p64' has no gradient", ValueError);
  set[2].set_grad(ones({2}));
  CHECK_THROWS_AS(optimizer.update_piece(set[2]), ShapeError);
  CHECK(set.values() == after_first);
  CHECK(optimizer.pieces() == 1);
  optimizer.cancel();
  CHECK(optimizer.pieces() == 0);
  CHECK(optimizer.steps() == 0);
}

TEST_CASE("a gradient that is not finite leaves the first piece as it was, and names others") {
  for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity()})
    for (size_t at : {size_t{0}, size_t{54'321}, size_t{99'999}}) {
      CAPTURE(bad);
      CAPTURE(at);
      Set set(kOptimizers[0]);
      set.make_gradients(1);
      const auto before = set.values();
      set[1].grad().data<float>()[at] = bad;
      Optimizer& optimizer = *set.optimizer;
      const std::string error =
          "sgd: the gradient of 'p100000' is not finite: it has an infinity or a NaN";
      optimizer.begin_pieces({.rate = 0.1});
      CHECK_THROWS_WITH_AS(optimizer.update_piece(set[1]), error.c_str(), ValueError);
      CHECK(optimizer.pieces() == 0);
      CHECK(set.values() == before);
      optimizer.update_piece(set[0]);
      CHECK_THROWS_WITH_AS(optimizer.update_piece(set[1]), error.c_str(), ValueError);
      CHECK(optimizer.pieces() == 2);  // its own has changed too
      optimizer.cancel();
      CHECK(optimizer.steps() == 0);
    }
}

TEST_CASE("prepare and pieces forget each other") {
  Set set(kOptimizers[0]);
  set.make_gradients(1);
  set.optimizer->prepare({.rate = 0.1});
  set.optimizer->begin_pieces({.rate = 0.1});
  CHECK_FALSE(set.optimizer->is_prepared());
  set.optimizer->update_piece(set[0]);
  set.optimizer->prepare({.rate = 0.1});
  CHECK(set.optimizer->pieces() == 0);
}
