// Gradients, optimizer state and parameters in bfloat16: each holds what was predicted, to the
// byte, as flags of a run and as rungs of the ladder; the numbers are those that rounding makes;
// all else of a step, undoing and resuming too, is as without.
#include "brim/train/low_memory.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "brim/autograd/backward.h"
#include "brim/memory/arena_planner.h"
#include "brim/nn/creation.h"
#include "brim/ops/mul.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/tests/train/small_net.h"
#include "brim/tests/train/train_with.h"
#include "brim/train/ladder.h"

using namespace brim;
using namespace brim::testing;

namespace {

struct Low {
  const char* name;
  Dtype gradients = Dtype::float32, state = Dtype::float32, parameters = Dtype::float32;
  Dtype precision = Dtype::float32;
  int64_t micro_batch = 0;  ///< 0: an update in one part
};

const Low kLows[] = {{.name = "gradients", .gradients = Dtype::bfloat16},
                     {.name = "gradients of parts", .gradients = Dtype::bfloat16, .micro_batch = 3},
                     {.name = "state", .state = Dtype::bfloat16},
                     {.name = "pure bfloat16",
                      .state = Dtype::bfloat16,
                      .parameters = Dtype::bfloat16,
                      .precision = Dtype::bfloat16},
                     {.name = "all",
                      .gradients = Dtype::bfloat16,
                      .state = Dtype::bfloat16,
                      .parameters = Dtype::bfloat16,
                      .precision = Dtype::bfloat16,
                      .micro_batch = 3}};

TrainingCase case_of(const Low& low, const std::string& optimizer = "sgd") {
  return {.model = "resnet20",
          .size = 32,
          .batch = 8,
          .optimizer = optimizer,
          .parameters = low.parameters,
          .state = low.state};
}

TrainerOptions options_of(const TrainingCase& c, const Low& low) {
  TrainerOptions options = trainer_options(c);
  options.precision = low.precision;
  options.gradients = low.gradients;
  options.micro_batch = low.micro_batch;
  return options;
}

RehearsalOptions rehearsal_for(const TrainingCase& c, const Low& low) {
  RehearsalOptions rehearsal = rehearsal_options(c);
  rehearsal.trainer = options_of(c, low);
  if (low.micro_batch == 0) return rehearsal;
  rehearsal.batch = low.micro_batch;
  rehearsal.effective_batch = rehearsal.evaluation_batch = c.batch;
  return rehearsal;
}

RehearsedPlan plan_of(const RehearsalOptions& rehearsal, const std::string& planner = "arena") {
  return plan_under(planner, [&](const auto& held) { rehearse(rehearsal, held); });
}

memory::MakePlanner planner_for(const RehearsedPlan& plan, const std::string& planner) {
  return plan.plan ? memory::arena_planner(plan.plan) : memory::planner_named(planner);
}

/// A small network with an update of it, gradients in `gradients`.
struct Run {
  explicit Run(Dtype gradients)
      : sgd(model.named_parameters(), {.momentum = 0.9}),
        step(model, sgd, {.seed = 5, .gradients = gradients}) {}
  Tensor loss() { return cross_entropy(model(problem.images), problem.labels); }

  SmallNet model{/*dropout=*/0};
  Problem problem = random_problem(4, 8, 4);
  optim::Sgd sgd;
  TrainStep step;
};

Tensor rounded(const Tensor& gradient) { return convert_to(gradient, {.dtype = Dtype::bfloat16}); }

}  // namespace

TEST_CASE("each holds what was predicted, under every planner") {
  for (const Low& low : kLows)
    for (const char* optimizer : {"sgd", "adamw"})
      for (const char* planner : {"arena", "caching", "direct"}) {
        if (is_instrumented() && low.name != std::string("all")) continue;
        CAPTURE(low.name);
        CAPTURE(optimizer);
        CAPTURE(planner);
        const TrainingCase c = case_of(low, optimizer);
        const RehearsedPlan plan = plan_of(rehearsal_for(c, low), planner);
        const Trained trained = train_as(c, options_of(c, low), planner_for(plan, planner));
        CHECK(trained.stats.peak_reserved == plan.predicted.peak_reserved);
        CHECK(trained.stats.peak_live == plan.predicted.peak_live);
        CHECK(trained.stats.mismatches == 0);
      }
}

TEST_CASE("each takes the bytes away that it says") {
  const TrainingCase wide = {"resnet18", 64, 8};  // more pixels than gradients in factors are for
  const auto memory_of = [](const TrainingCase& c, const Low& low) {
    return plan_of(rehearsal_for(c, low)).predicted;
  };
  const auto of = [](const StepMemory& memory, memory::Category category) {
    return memory.at_peak[static_cast<size_t>(category)];
  };
  const StepMemory all = memory_of(wide, {.name = ""});
  TrainingCase low_state = wide;
  low_state.state = Dtype::bfloat16;
  const int64_t parameters = of(all, memory::Category::parameters),
                saved = all.state - memory_of(low_state, {.name = ""}).state;
  CHECK(std::abs(saved - parameters / 2) < 64 * 62);  // blocks of 64 bytes, of 62 parameters
  const StepMemory gradients = memory_of(wide, {.name = "", .gradients = Dtype::bfloat16});
  CHECK(of(gradients, memory::Category::gradients) <=
        of(all, memory::Category::gradients) * 6 / 10);
  CHECK(gradients.peak_reserved < all.peak_reserved);
  TrainingCase pure = low_state;
  pure.parameters = Dtype::bfloat16;
  const StepMemory half = memory_of(pure, {.name = "", .precision = Dtype::bfloat16});
  // All but norms and biases, a thousandth; the CPU's kernels widen a layer's weights at a time.
  CHECK(half.state < all.state * 502 / 1000);
  CHECK(half.peak_reserved < all.peak_reserved * 2 / 3);
}

TEST_CASE("gradients in bfloat16 take fewer bytes in parts, too") {
  // VGG's first linear layer is most of it: nothing may widen it whole.
  const TrainingCase c{"vgg16", 32, 4};
  const auto peak = [&](Dtype gradients) {
    RehearsalOptions rehearsal =
        rehearsal_for(c, {.name = "", .gradients = gradients, .micro_batch = 2});
    rehearsal.evaluated = 0;
    return plan_of(rehearsal).predicted.peak_live;
  };
  CHECK(peak(Dtype::bfloat16) < peak(Dtype::float32));
}

TEST_CASE("leaves that are not the model's keep their gradients as they are") {
  Run run(Dtype::bfloat16);
  Tensor temperature = ones({1});
  temperature.set_requires_grad();
  for (int update = 0; update < 2; ++update) {
    run.step.begin();
    for (double weight : {0.5, 0.5})
      run.step.micro_step(
          [&] {
            return cross_entropy(mul(run.model(run.problem.images), temperature),
                                 run.problem.labels);
          },
          {.weight = weight});
    run.step.prepare(0.1);
    run.step.commit();
    CHECK(temperature.grad().dtype() == Dtype::float32);
  }
}

TEST_CASE("an update from gradients in bfloat16 is that from the rounded gradients") {
  Run low(Dtype::bfloat16), wide(Dtype::float32);
  for (int update = 0; update < 3; ++update) {
    const double loss = low.step.run(0.05, [&] { return low.loss(); });
    Tensor by_hand = wide.loss();
    CHECK(by_hand.item<double>() == loss);
    backward(by_hand);
    for (const nn::NamedTensor& parameter : wide.model.named_parameters())
      parameter.tensor.set_grad(rounded(parameter.tensor.grad()));
    wide.sgd.step(0.05);
    wide.sgd.zero_grad();
    CHECK(values_of(low.model.named_parameters()) == values_of(wide.model.named_parameters()));
    CHECK(values_of(low.sgd.named_state()) == values_of(wide.sgd.named_state()));
  }
}

TEST_CASE("the parts of an update are rounded, and so is their sum") {
  Run low(Dtype::bfloat16), wide(Dtype::float32);
  low.step.begin();
  std::vector<Tensor> sums;
  for (double weight : {0.25, 0.75}) {
    low.step.micro_step([&] { return low.loss(); }, {.weight = weight});
    Tensor loss = wide.loss();
    backward(loss, {.grad = full({}, weight)});
    size_t i = 0;
    for (const nn::NamedTensor& parameter : wide.model.named_parameters()) {
      const Tensor part = rounded(parameter.tensor.grad());
      if (sums.size() <= i)
        sums.push_back(part);
      else
        accumulate_into(sums[i], part);
      const Tensor& got = low.model.named_parameters()[i].tensor.grad();
      CHECK(got.dtype() == Dtype::bfloat16);
      CHECK(got.to_vector<float>() == sums[i++].to_vector<float>());
    }
    wide.sgd.zero_grad();
  }
  size_t i = 0;
  for (const nn::NamedTensor& parameter : wide.model.named_parameters())
    parameter.tensor.set_grad(sums[i++]);
  low.step.prepare(0.1);
  low.step.commit();
  wide.sgd.step(0.1);
  CHECK(values_of(low.model.named_parameters()) == values_of(wide.model.named_parameters()));
}

TEST_CASE("a step that fails at any request leaves everything, and goes on with the same bits") {
  const auto run = [](int64_t fails) {
    auto account = std::make_shared<memory::Account>(
        Device::cpu(), std::make_unique<memory::HostSource>(memory::host_memory()),
        memory::planner_named("direct"));
    memory::AccountScope scope(account);
    Run training(Dtype::bfloat16);
    const auto state = [&] {
      auto all = values_of(training.model.named_parameters());
      for (const auto& more : {training.model.named_buffers(), training.sgd.named_state()})
        for (float value : values_of(more)) all.push_back(value);
      return all;
    };
    const auto before = state();
    const int64_t live = account->stats().live;
    const auto update = [&] {
      training.step.begin();
      for (double weight : {0.5, 0.5})
        training.step.micro_step([&] { return training.loss(); }, {.weight = weight});
      training.step.prepare(0.1);
      training.step.commit();
    };
    if (fails > 0) {
      account->fail_nth(fails);
      bool failed = false;
      try {
        update();
      } catch (const memory::OutOfMemory&) {
        failed = true;
        CHECK(state() == before);
        CHECK(account->stats().live == live);
        for (const nn::NamedTensor& parameter : training.model.named_parameters())
          CHECK_FALSE(parameter.tensor.grad().defined());
      }
      account->fail_nth(0);
      if (!failed) return std::vector<float>();
    }
    update();
    return state();
  };
  const std::vector<float> whole = run(0);
  int64_t faults = 0;
  for (int64_t fails = 1;; fails += is_instrumented() ? 7 : 1) {
    const std::vector<float> after = run(fails);
    if (after.empty()) break;
    ++faults;
    CHECK(after == whole);
  }
  CHECK(faults > (is_instrumented() ? 7 : 50));
}

TEST_CASE("pure bfloat16 learns as float32 does") {
  const auto last_loss = [](Dtype dtype) {
    nn::CreationScope creation({.dtype = dtype});
    SmallNet model(/*dropout=*/0);
    const Problem problem = random_problem(16, 8, 4);
    optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9, .state = dtype});
    TrainStep step(model, sgd, {.precision = dtype});
    double loss = 0;
    for (int i = 0; i < 150; ++i)
      loss = step.run(0.05, [&] { return cross_entropy(model(problem.images), problem.labels); });
    for (const nn::NamedTensor& parameter : model.named_parameters())
      CHECK((parameter.tensor.dtype() == Dtype::bfloat16) ==
            (dtype == Dtype::bfloat16 && parameter.tensor.dim() > 1));
    return loss;
  };
  const double wide = last_loss(Dtype::float32), low = last_loss(Dtype::bfloat16);
  CAPTURE(wide);
  CAPTURE(low);
  CHECK(wide < 0.5);
  CHECK(low < 0.5);
}

TEST_CASE("what cannot be is refused") {
  SmallNet model;
  optim::Sgd sgd(model.named_parameters());
  CHECK_THROWS_WITH_AS(TrainStep(model, sgd, {.gradients = Dtype::float16}),
                       doctest::Contains("gradients of float32 or bfloat16, got float16"),
                       ValueError);
  CHECK_THROWS_WITH_AS(TrainStep(model, sgd, {.fused_update = true, .gradients = Dtype::bfloat16}),
                       doctest::Contains("keeps no gradients that could be bfloat16"), ValueError);
}

TEST_CASE(
    "as rungs they are offered, said to change numbers, never chosen, and hold what they say") {
  const TrainingCase c = case_of({.name = ""});
  RehearsalOptions rehearsal = rehearsal_options(c);
  const LadderResult result = standard_ladder().climb({rehearsal, "arena"}, {.limit = 1 << 30});
  CHECK(result.chosen == 0);
  const int64_t asked = result.considered[0].memory.peak_reserved;
  for (const char* name : {"gradients", "optimizer state", "parameters"}) {
    CAPTURE(name);
    auto rung = std::ranges::find_if(result.considered, [&](const Rung& one) {
      return one.names == std::vector<std::string>{name};
    });
    REQUIRE(rung != result.considered.end());
    CHECK(rung->changes_numbers);
    CHECK(rung->is_proposed_only);
    CHECK(rung->memory.peak_reserved < asked);
    // Run as the rung sets it up.
    const RehearsedPlan plan = plan_of(rung->setup.rehearsal);
    CHECK(plan.predicted.peak_reserved == rung->memory.peak_reserved);
    Low low{.name = name};
    if (std::string(name) == "gradients") low.gradients = Dtype::bfloat16;
    if (std::string(name) != "gradients") low.state = Dtype::bfloat16;
    if (std::string(name) == "parameters") low.parameters = low.precision = Dtype::bfloat16;
    const TrainingCase run = case_of(low);
    const RehearsedPlan own = plan_of(rehearsal_for(run, low));
    const Trained trained = train_as(run, options_of(run, low), planner_for(own, "arena"));
    CHECK(trained.stats.peak_reserved == rung->memory.peak_reserved);
    CHECK(trained.stats.mismatches == 0);
    // And in force it is not offered again.
    const LadderResult again = standard_ladder().climb(rung->setup, {.limit = 1 << 30});
    CHECK(std::ranges::any_of(again.not_offered, [&](const NotOffered& one) {
      return one.name == name && one.why.find("in force already") != std::string::npos;
    }));
  }
}

TEST_CASE("a checkpoint of a training in bfloat16 goes on with the same bits") {
  const auto train = [](const std::string& folder, int64_t first, int64_t then) {
    nn::CreationScope creation({.dtype = Dtype::bfloat16});
    SmallNet model(/*dropout=*/0);
    const Problem problem = random_problem(8, 8, 4);
    optim::AdamW adamw(model.named_parameters(), {.state = Dtype::bfloat16, .seed = 9});
    TrainStep step(model, adamw, {.precision = Dtype::bfloat16, .gradients = Dtype::bfloat16});
    Checkpoints checkpoints(folder, {});
    const TrainingState state{model, adamw, step, nullptr};
    checkpoints.load_newest(state);
    for (int64_t i = first; i < then; ++i)
      step.run(0.01, [&] { return cross_entropy(model(problem.images), problem.labels); });
    checkpoints.save(state, {});
    auto all = values_of(model.named_parameters());
    for (float value : values_of(adamw.named_state())) all.push_back(value);
    return all;
  };
  TempFolder one, two;
  train(two.path(), 0, 3);
  CHECK(train(two.path(), 3, 6) == train(one.path(), 0, 6));
}
