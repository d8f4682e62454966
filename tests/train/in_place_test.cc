// A training with elementwise ops in place: the same bits, fewer bytes, and both as predicted.
#include <doctest/doctest.h>

#include "brim/data/shapes.h"
#include "brim/ops/abs.h"
#include "brim/ops/add.h"
#include "brim/ops/log.h"
#include "brim/ops/neg.h"
#include "brim/optim/sgd.h"
#include "brim/tests/train/plain_net.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/ladder.h"
#include "brim/train/trainer.h"

using namespace brim;
using namespace brim::testing;

namespace {

/// With one logit for each of the shapes.
template <class Body>
struct TenClasses final : nn::Module {
  TenClasses() {
    register_modules({{"body", body}, {"out", out}});
    nn::initialize(*this, /*seed=*/5);
    to(Dtype::float32);
  }
  Tensor forward(Tensor x) override { return out(body(std::move(x))); }
  Body body;
  nn::Linear out{4, 10};
};

/// Holds most in forward, where sums that nobody saves stand beside their terms.
struct Branches final : nn::Module {
  Branches() {
    register_modules({{"a", a}, {"b", b}, {"c", c}});
    nn::initialize(*this, /*seed=*/3);
  }
  Tensor forward(Tensor x) override {
    Tensor sum = add(a(x), b(x));
    return global_avg_pool(add(std::move(sum), c(std::move(x))));
  }
  nn::Conv2d a{3, 4, {.kernel = 1}}, b{3, 4, {.kernel = 1}}, c{3, 4, {.kernel = 1}};
};

struct Trained {
  std::vector<double> losses;
  std::vector<float> weights;
  memory::AccountStats stats;
};

template <class Net>
Trained train(bool in_place, const std::string& planner) {
  auto account = std::make_shared<memory::Account>(Device::cpu(),
                                                   std::make_unique<memory::HostSource>(1 << 26),
                                                   memory::planner_named("direct"));
  memory::AccountScope scope(account);
  Trained result;
  {
    TenClasses<Net> model;
    optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
    RandomBatches source({.images = 8, .batches = 3, .size = 16});
    data::Loader validation(
        std::make_shared<data::Shapes>(data::ShapesOptions{.count = 12, .size = 16}),
        {.batch = 8, .size = 16, .workers = 0, .shuffle = false});
    Trainer trainer(model, sgd, {source, &validation},
                    {.steps = 6, .planner = planner, .in_place = in_place});
    trainer.on_step = [&](const StepReport& step) { result.losses.push_back(step.loss); };
    trainer.on_epoch = [&](const EpochReport& epoch) {
      REQUIRE(epoch.validation);
      result.losses.push_back(epoch.validation->loss);
    };
    trainer.run();
    result.weights = values_of(model.named_parameters());
  }
  result.stats = account->stats();
  CHECK(result.stats.live == 0);
  return result;
}

}  // namespace

TEST_CASE_TEMPLATE("losses, evaluations and weights have the same bits", Net, SmallNet, PlainNet,
                   Branches) {
  for (const char* planner : {"arena", "caching", "direct"}) {
    CAPTURE(planner);
    Trained with = train<Net>(true, planner), without = train<Net>(false, planner);
    CHECK(with.losses == without.losses);
    CHECK(with.losses.size() == 8);
    CHECK(with.weights == without.weights);
    CHECK(with.stats.peak_live <= without.stats.peak_live);
  }
}

TEST_CASE("a network of sums holds less") {
  CHECK(train<Branches>(true, "arena").stats.peak_live <
        train<Branches>(false, "arena").stats.peak_live);
}

TEST_CASE("the ladder takes it unasked where it is what makes a training fit") {
  auto setup = [](bool in_place) {
    auto make_updating = [](nn::Module& model) {
      return Updating{std::make_unique<optim::Sgd>(model.named_parameters())};
    };
    return TrainingSetup{{.make_model = [] { return std::make_shared<Branches>(); },
                          .make_updating = make_updating,
                          .trainer = {.steps = 4, .in_place = in_place},
                          .size = 64,  // beside these activations scratch is small
                          .batch = 32,
                          .updates = 2}};
  };
  const int64_t least = predicted_memory(setup(true)).peak_reserved;
  REQUIRE(least < predicted_memory(setup(false)).peak_reserved);
  LadderResult result = standard_ladder().climb(setup(false), {.limit = least});
  REQUIRE(result.chosen);
  const Rung& chosen = result.considered[*result.chosen];
  CHECK(chosen.names == std::vector<std::string>{"in place"});
  CHECK(!chosen.changes_numbers);
  CHECK(chosen.setup.rehearsal.trainer.in_place);
  CHECK(chosen.memory.peak_reserved == least);
}

TEST_CASE("a loss that is not finite is traced to the op that made it so, not to one over it") {
  struct Net final : nn::Module {
    Net() { register_module("fc", fc); }
    Tensor forward(Tensor x) override {
      x = fc(global_avg_pool(std::move(x)));
      return relu(neg(log(neg(abs(std::move(x))))));  // the logarithm of what is below zero
    }
    nn::Linear fc{3, 4};
  } model;
  nn::initialize(model, 1);
  optim::Sgd sgd(model.named_parameters());
  RandomBatches source({.images = 4, .batches = 1});
  Trainer trainer(model, sgd, {source}, {.steps = 1});
  CHECK_THROWS_WITH(trainer.run(), doctest::Contains("forward pass of 'log'"));
  CHECK_THROWS_WITH(trainer.run(), doctest::Contains("its inputs were finite"));
}
