// Ordinary updates in which gradients of weights that meet few pixels stay factors until all is
// known: the bits of stored gradients, in fewer bytes, and nothing changes where one fails.
#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "brim/memory/out_of_memory.h"
#include "brim/ops/mean.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/train/fused_training.h"
#include "brim/tests/train/plain_net.h"
#include "brim/train/numerics_watch.h"
#include "brim/train/step_graph.h"
#include "brim/train/trainer.h"

using namespace brim;
using namespace brim::testing;

namespace {

Case few_pixels(std::string optimizer, bool graph = false) {
  return {.model = "few pixels", .optimizer = std::move(optimizer), .fused = false, .graph = graph};
}

/// The weights of `padded`, `wide` and `strided`: the others meet more pixels, or meet them twice.
constexpr int64_t kFactored = (128 * 9 * 128 + 128 * 512 + 512 * 128) * 4;
/// Of their factors: 16 pixels, and 4 in the last one, of filters and windows.
constexpr int64_t kFactors = (16 * (128 + 9 * 128) + 16 * (128 + 512) + 4 * (512 + 128)) * 4;

constexpr double kRate = 0.05;

/// With gradients that anybody may look at before the update.
double run_stored(TrainStep& step, const TrainStep::LossFunction& loss,
                  const MicroStepOptions& options = {}) {
  step.begin();
  const double value = step.micro_step(loss, options);
  step.prepare(kRate);
  step.commit();
  return value;
}
double update_stored(Run& run) {
  return run_stored(run.step, [&] { return run.loss(); }, {.samples = 4});
}

template <class Update>
RehearsedPlan plan_of(const Case& c, const Update& update) {
  return plan_on_meta([&](const auto& state_is_held) {
    Run run(c, Device::meta());
    state_is_held();
    for (int i = 0; i < 3; ++i) update(run);
  });
}

}  // namespace

TEST_CASE("held factors: the bits and the norm of an update with stored gradients") {
  for (const char* optimizer : {"sgd", "adamw"}) {
    CAPTURE(optimizer);
    Run stored(few_pixels(optimizer)), held(few_pixels(optimizer));
    for (int i = 0; i < 5; ++i) {
      REQUIRE(held.update() == update_stored(stored));
      REQUIRE(held.values() == stored.values());
      REQUIRE(held.optimizer->gradient_norm() == stored.optimizer->gradient_norm());
    }
    CHECK_FALSE(held.has_gradients());
  }
}

TEST_CASE("held factors: the bits of a clipped update whose loss is scaled") {
  std::vector<std::vector<float>> values;
  for (bool held : {true, false}) {
    FewPixels model;
    optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
    optim::LossScaler scaler({.initial = 512});
    TrainStep step(model, sgd, {.clip = {.norm = 0.01}, .scaler = &scaler});
    const Tensor images = uniform({4, 8, 8, 3}, -1, 1, RandomKey{1});
    const Tensor labels = zeros({4}, {.dtype = Dtype::int64});
    const auto loss = [&] { return cross_entropy(model.forward(images), labels); };
    for (int i = 0; i < 3; ++i) held ? step.run(kRate, loss) : run_stored(step, loss);
    CHECK(step.updates() == 3);
    values.push_back(values_of(model.named_parameters()));
  }
  CHECK(values[0] == values[1]);
}

TEST_CASE("held factors: as many bytes as predicted, less those of the gradients") {
  for (const char* optimizer : {"sgd", "adamw"}) {
    const Case c = few_pixels(optimizer);
    CAPTURE(optimizer);
    const int64_t stored = plan_of(c, update_stored).predicted.peak_live;
    const Planned planned(c);
    Run run(c);
    for (int i = 0; i < 4; ++i) run.update();
    const memory::AccountStats stats = planned.account->stats();
    CHECK(stats.peak_live == planned.plan.predicted.peak_live);
    CHECK(stats.peak_reserved == planned.plan.predicted.peak_reserved);
    CHECK(stats.mismatches == 0);
    CHECK(stats.peak_live <= stored - kFactored + kFactors);
  }
}

TEST_CASE("held factors: an update that is recorded has the same bits") {
  std::vector<std::vector<float>> values;
  {
    const Case c = few_pixels("sgd");
    Planned planned(c);
    Run run(c);
    for (int i = 0; i < 6; ++i) {
      run.update();
      values.push_back(run.values());
    }
  }
  const Case c = few_pixels("sgd", /*graph=*/true);
  Planned planned(c);
  Run run(c);
  StepGraph graph(run.step);
  for (const std::vector<float>& expected : values) {
    graph.run({.rate = kRate, .run = [&] { return run.update(); }});
    REQUIRE(run.values() == expected);
  }
  CHECK(graph.replays() == 5);
}

TEST_CASE("held factors: an update that is refused a request is undone, whichever it is") {
  const Case c = few_pixels("sgd");
  Run undisturbed(c);
  Planned planned(c);
  Run run(c);
  const int64_t live = planned.account->stats().live;
  const std::vector<float> before = run.values();
  int64_t undone = 0;
  for (bool failed = true; failed;) {
    CAPTURE(undone);
    planned.account->fail_nth(undone + 1);
    try {
      run.update();
      failed = false;
    } catch (const memory::OutOfMemory&) {
      ++undone;
      REQUIRE(run.values() == before);
    }
    planned.account->fail_nth(0);
    REQUIRE(planned.account->stats().live == live);
  }
  CHECK(undone > 20);
  undisturbed.update();
  CHECK(run.values() == undisturbed.values());
}

namespace {

/// x is 1e20, and so is dy; weights are so small that nothing else is large.
struct Product final : nn::Module {
  Product() {
    register_modules({{"conv", conv}});
    fill(conv.weight, 1e-20);
  }
  Tensor forward(Tensor x) override { return conv(std::move(x)); }
  nn::Conv2d conv{128, 128, {.kernel = 1, .bias = false}};
};

}  // namespace

TEST_CASE("held factors: a product that is not finite is found, and traced to its op") {
  Product model;
  optim::Sgd sgd(model.named_parameters());
  TrainStep step(model, sgd);
  const std::vector<float> before = values_of(model.named_parameters());
  const Tensor large = full({1, 2, 2, 128}, 1e20);
  for (bool held : {false, true}) {
    const auto loss = [&] { return mul(mean(model.forward(large)), full({}, 4e22)); };
    CHECK(loss().item<float>() < std::numeric_limits<float>::infinity());
    const std::string said =
        error_text<ValueError>([&] { held ? step.run(kRate, loss) : run_stored(step, loss); });
    CHECK(contains(said, "the gradient of 'conv.weight' is not finite"));
    if (held) CHECK(contains(said, "first seen in the backward pass of 'conv2d' in module conv"));
    CHECK(values_of(model.named_parameters()) == before);
  }
}

TEST_CASE("held factors: who watches the numbers sees the gradients") {
  const auto watched = [](bool held) {
    Run run(few_pixels("sgd"));
    NumericsWatch watch;
    NumericsWatch::Scope watching(&watch, 0);
    if (held)
      run.update();
    else
      update_stored(run);
    watching.keep();
    std::vector<std::string> seen;
    for (const WatchedValues& one : watch.values()) {
      if (one.kind != WatchedKind::parameter_gradients) continue;
      const auto highest = one.exponents.highest();
      seen.push_back(fmt::format("{} {} {} {}", one.module, one.op, one.exponents.total(),
                                 highest.value_or(-1000)));
    }
    return seen;
  };
  const std::vector<std::string> stored = watched(false);
  CHECK(stored.size() == 6);
  CHECK(watched(true) == stored);
}

TEST_CASE(
    "held factors: updates of all sizes follow the plan, in parts or not, recomputed or not") {
  struct Sizes {
    int64_t images, last, micro_batch;  // 4 images of 4 pixels are few, 8 are not
  };
  for (const Sizes& sizes : {Sizes{4, 2, 2}, Sizes{8, 4, 0}, Sizes{4, 0, 0}})
    for (const bool graph : {false, true})
      for (const RecomputeOptions& recompute : {RecomputeOptions(), free_recomputation()}) {
        CAPTURE(sizes.images);
        CAPTURE(graph);
        CAPTURE(recompute.name);
        std::vector<std::vector<float>> values;
        for (const char* planner : {"", "arena"}) {
          const auto account = memory::capped_host_account("direct");
          const memory::AccountScope scope(account);
          FewPixels model;
          optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
          RandomBatches batches({.images = sizes.images, .batches = 3, .last_images = sizes.last});
          Trainer trainer(model, sgd, {batches, nullptr},
                          {.steps = 8,
                           .micro_batch = sizes.micro_batch,
                           .planner = planner,
                           .recompute = recompute,
                           .graph = graph});
          trainer.run();
          CHECK(account->stats().mismatches == 0);
          values.push_back(values_of(model.named_parameters()));
        }
        CHECK(values[0] == values[1]);
      }
}

TEST_CASE("held factors: an update that is skipped for an overflow leaves everything as it was") {
  Product model;
  optim::Sgd sgd(model.named_parameters());
  optim::LossScaler scaler({.initial = 2});
  TrainStep step(model, sgd, {.scaler = &scaler});
  const std::vector<float> before = values_of(model.named_parameters());
  const Tensor large = full({1, 2, 2, 128}, 1e20);
  const auto account = memory::account(Device::cpu());
  const int64_t live = account->stats().live;
  step.run(kRate, [&] { return mul(mean(model.forward(large)), full({}, 4e22)); });
  REQUIRE(std::holds_alternative<Skipped>(step.outcome()));
  const Skipped skipped = std::get<Skipped>(step.outcome());
  CHECK(skipped.op == "conv2d");
  CHECK(skipped.first_overflow_module == "conv");
  CHECK(values_of(model.named_parameters()) == before);
  CHECK(account->stats().live == live);
  step.run(kRate, [&] { return mul(mean(model.forward(large)), full({}, 1e-3)); });
  CHECK(std::holds_alternative<Applied>(step.outcome()));
  CHECK(step.updates() == 1);
}
