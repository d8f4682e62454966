// Trainings of graphs that change from step to step, within budgets and without a plan: the bits of
// the training that keeps everything, never a byte over, and nothing left behind where it fails. Of
// a graph that stays the same, what a rehearsal says.
#include <doctest/doctest.h>

#include "brim/base/random.h"
#include "brim/memory/arena_planner.h"
#include "brim/nn/layers.h"
#include "brim/ops/cross_entropy.h"
#include "brim/ops/global_avg_pool.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/replays.h"
#include "brim/tests/train/faults.h"
#include "brim/tests/train/planned_training.h"
#include "brim/tests/train/values.h"

using namespace brim;
using namespace brim::testing;

namespace {

struct Block final : nn::Module {
  Block() { register_modules({{"conv1", conv1}, {"bn1", bn1}, {"conv2", conv2}, {"bn2", bn2}}); }
  Tensor forward(Tensor x) override {
    Tensor y = bn1(conv1(x), {.activation = Activation::relu});
    return bn2(conv2(std::move(y)), {.residual = std::move(x), .activation = Activation::relu});
  }
  nn::Conv2d conv1{8, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn1{8};
  nn::Conv2d conv2{8, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn2{8};
};

/// Residual blocks of which each step leaves some out and runs others twice, as in "Deep networks
/// with stochastic depth" (Huang et al., 2016).
struct RandomDepth final : nn::Module {
  explicit RandomDepth(Dtype dtype) {
    register_module("stem", stem);
    register_module("bn", bn);
    for (size_t i = 0; i < blocks.size(); ++i)
      register_module("block" + std::to_string(i), blocks[i]);
    register_module("drop", drop);
    register_module("fc", fc);
    nn::initialize(*this, /*seed=*/3);
    to(dtype);
  }
  Tensor forward(Tensor x) override {
    RandomStream random(RandomKey{17}, step);
    x = bn(stem(std::move(x)), {.activation = Activation::relu});
    for (Block& block : blocks)
      for (uint64_t times = random.below(3); times > 0; --times) x = block(std::move(x));
    return fc(global_avg_pool(drop(std::move(x))));
  }

  uint64_t step = 0;  ///< that the depth follows from
  nn::Conv2d stem{3, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn{8};
  std::array<Block, 6> blocks;
  nn::Dropout drop{0.2};
  nn::Linear fc{8, 4};
};

struct Run {
  Dtype dtype = Dtype::float32;
  std::string planner = "direct";
  int64_t budget = 0;  ///< 0: everything is kept, or what the cap allows
  int64_t cap = memory::Source::kUnlimited;
  bool evicts = true;
  int64_t micro_batches = 1;
  int steps = 10;
};

struct Trained {
  std::vector<double> numbers;  ///< losses and gradients of all steps, and what is left of them
  int64_t peak_live = 0, peak_reserved = 0;
  int64_t rerun = 0;
};

Trained train(const Run& run) {
  auto account = memory::capped_host_account(run.planner, run.cap);
  memory::AccountScope scope(account);
  Trained result;
  {
    RandomDepth model(run.dtype);
    optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
    TrainStep step(
        model, sgd,
        {.seed = 5, .recompute = run.evicts ? dynamic_eviction(run.budget) : RecomputeOptions()});
    Problem problem = random_problem(/*batch=*/4, /*size=*/16, /*classes=*/4);
    problem.images = convert_to(problem.images, {.dtype = run.dtype});
    account->reset_peak();
    Replays reruns;
    for (int i = 0; i < run.steps; ++i) {
      model.step = static_cast<uint64_t>(i);
      step.begin();
      for (int64_t part = 0; part < run.micro_batches; ++part)
        result.numbers.push_back(
            step.micro_step([&] { return cross_entropy(model(problem.images), problem.labels); },
                            {.weight = 1.0 / static_cast<double>(run.micro_batches),
                             .first_sample = static_cast<uint64_t>(4 * part)}));
      for (const nn::NamedTensor& each : model.named_parameters())
        if (each.tensor.grad().defined())
          std::ranges::copy(each.tensor.grad().to_vector<double>(),
                            std::back_inserter(result.numbers));
      step.prepare(0.05);
      step.commit();
    }
    result.rerun = reruns.count();
    for (const auto& named : {model.named_parameters(), model.named_buffers(), sgd.named_state()})
      std::ranges::copy(doubles_of(named), std::back_inserter(result.numbers));
  }
  result.peak_live = account->stats().peak_live;
  result.peak_reserved = account->stats().peak_reserved;
  CHECK(account->stats().live == 0);
  return result;
}

int64_t share_of(int64_t bytes, double share) {
  return static_cast<int64_t>(share * static_cast<double>(bytes));
}

}  // namespace

TEST_CASE("a model of random depth has the same bits within any budget, and never goes over it") {
  for (Dtype dtype : {Dtype::float32, Dtype::float64}) {
    CAPTURE(to_string(dtype));
    const Trained kept = train({.dtype = dtype, .evicts = false});
    CHECK(kept.rerun == 0);
    const Trained roomy = train({.dtype = dtype, .budget = kept.peak_live});
    CHECK(roomy.rerun == 0);
    CHECK(roomy.peak_live == kept.peak_live);
    int64_t rerun = 0;
    for (double share : {0.8, 0.6, 0.45})
      for (const char* planner : {"direct", "caching"}) {
        if (dtype == Dtype::float64 && planner == std::string("direct")) continue;  // takes long
        CAPTURE(share);
        CAPTURE(planner);
        const int64_t budget = share_of(kept.peak_live, share);
        const Trained with = train({.dtype = dtype, .planner = planner, .budget = budget});
        CHECK((with.numbers == kept.numbers));
        CHECK(with.peak_live <= budget);
        CHECK(with.rerun >= rerun);  // less room costs more, and the planner nothing
        rerun = with.rerun;
      }
    CHECK(rerun > 0);
  }
}

TEST_CASE("without a budget it stays within what the account may reserve, also in pieces") {
  const Trained kept = train({.evicts = false});
  for (double share : {0.8, 0.6})
    for (const char* planner : {"direct", "caching"}) {
      CAPTURE(share);
      CAPTURE(planner);
      const int64_t cap = share_of(kept.peak_live, share);
      const Trained with = train({.planner = planner, .cap = cap});
      CHECK((with.numbers == kept.numbers));
      CHECK(with.peak_reserved <= cap);
      CHECK(with.rerun > 0);
    }
}

TEST_CASE("each part of an update evicts for itself") {
  const Trained kept = train({.evicts = false, .micro_batches = 3, .steps = 4});
  const int64_t budget = share_of(kept.peak_live, 0.6);
  const Trained with = train({.budget = budget, .micro_batches = 3, .steps = 4});
  CHECK((with.numbers == kept.numbers));
  CHECK(with.peak_live <= budget);
  CHECK(with.rerun > 0);
}

TEST_CASE("of a graph that stays the same a rehearsal tells the peaks, whatever the planner") {
  for (const TrainingCase& c : {TrainingCase{"resnet20", 32, 4, "sgd", 1},
                                TrainingCase{"mobilenet_v2", 32, 16, "adamw", 1}}) {
    CAPTURE(c.name());
    const StepMemory kept = predicted(c, "direct");
    const int64_t budget = kept.state + share_of(kept.peak_live - kept.state, 0.85);
    RehearsalOptions rehearsal = rehearsal_options(c);
    rehearsal.trainer.recompute = dynamic_eviction(budget);
    for (const char* planner : {"direct", "caching", "arena"}) {
      CAPTURE(planner);
      Replays rehearsed;
      RehearsedPlan plan =
          plan_under(planner, [&](const auto& held) { rehearse(rehearsal, held); });
      CHECK(rehearsed.count() > 0);
      CHECK(plan.predicted.peak_live <= budget);
      const memory::AccountStats stats =
          brim::testing::train(c,
                               planner == std::string("arena") ? memory::arena_planner(plan.plan)
                                                               : memory::planner_named(planner),
                               memory::host_memory(), {}, rehearsal.trainer.recompute);
      CHECK(stats.peak_live == plan.predicted.peak_live);
      CHECK(stats.peak_reserved == plan.predicted.peak_reserved);
      CHECK(stats.mismatches == 0);
    }
  }
}

TEST_CASE("so it does where the cap is the budget, whatever pieces the planner is left with") {
  const TrainingCase c{"resnet20", 32, 4, "sgd", 1};
  RehearsalOptions rehearsal = rehearsal_options(c);
  rehearsal.trainer.recompute = dynamic_eviction(0);
  const StepMemory kept = predicted(c, "direct");
  const int64_t cap = kept.state + share_of(kept.peak_live - kept.state, 0.7);
  for (const char* planner : {"direct", "caching"}) {
    CAPTURE(planner);
    Replays rehearsed;
    const StepMemory told =
        measure_on_meta(memory::planner_named(planner),
                        [&](const auto& held) { rehearse(rehearsal, held); }, {.capacity = cap});
    CHECK(rehearsed.count() > 0);
    const memory::AccountStats stats = brim::testing::train(c, memory::planner_named(planner), cap,
                                                            {}, rehearsal.trainer.recompute);
    CHECK(stats.peak_live == told.peak_live);
    CHECK(stats.peak_reserved == told.peak_reserved);
    CHECK(stats.peak_reserved <= cap);
  }
}

TEST_CASE("a budget below the least possible is refused, and a larger one takes up from there") {
  SmallNet reference_net, net;
  const Problem problem = random_problem(4, 16, 4);
  auto account = memory::account(Device::cpu());
  auto run = [&](SmallNet& model, optim::Sgd& sgd, int64_t budget) {
    TrainStep step(model, sgd, {.seed = 5, .recompute = dynamic_eviction(budget)});
    return step.run(0.1, [&] { return cross_entropy(model(problem.images), problem.labels); });
  };
  optim::Sgd reference_sgd(reference_net.named_parameters()), sgd(net.named_parameters());
  const int64_t live = account->stats().live;
  for (int64_t more : {0, 1000, 20'000}) {
    CHECK_THROWS_WITH_AS(run(net, sgd, live + more), doctest::Contains("(held to "),
                         memory::OutOfMemory);
    CHECK(account->stats().live == live);
  }
  CHECK(run(net, sgd, 0) == run(reference_net, reference_sgd, 0));
  CHECK(values_of(net.named_parameters()) == values_of(reference_net.named_parameters()));
  CHECK(values_of(net.named_buffers()) == values_of(reference_net.named_buffers()));
  CHECK_THROWS_AS(dynamic_eviction(-1), ValueError);
}

TEST_CASE("a request that is refused is served by dropping, or undoes the step, wherever it is") {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  const Problem problem = random_problem(2, 8, 4);
  SmallNet reference_net;
  optim::Sgd reference_sgd(reference_net.named_parameters());
  auto update = [&](SmallNet& model, optim::Sgd& sgd, int64_t budget) {
    TrainStep step(model, sgd, {.seed = 5, .recompute = dynamic_eviction(budget)});
    account->reset_peak();
    step.run(0.1, [&] { return cross_entropy(model(problem.images), problem.labels); });
    return account->stats().peak_live;
  };
  int64_t budget = update(reference_net, reference_sgd, 0);
  const std::vector<float> expected = values_of(reference_net.named_parameters()),
                           expected_buffers = values_of(reference_net.named_buffers());
  int served = 0, refused = 0;
  for (int64_t n = 1;; ++n) {
    REQUIRE(n < 1000);
    SmallNet net;
    optim::Sgd sgd(net.named_parameters());
    const std::vector<float> before = values_of(net.named_parameters());
    const int64_t live = account->stats().live, requests = account->stats().requests;
    const auto shortage = refused_at(*account, n, [&] { update(net, sgd, budget); });
    CHECK(account->stats().live == live);
    if (!shortage) {
      CHECK(values_of(net.named_parameters()) == expected);
      CHECK(values_of(net.named_buffers()) == expected_buffers);
      if (account->stats().requests - requests < n) break;  // none of them was refused
      ++served;
    } else {
      ++refused;
      CHECK(values_of(net.named_parameters()) == before);
    }
  }
  CHECK(served > 5);
  CHECK(refused > 5);
}
