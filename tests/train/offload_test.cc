// Trainings whose saved tensors wait in the host: the bits of the training that keeps everything,
// fewer device bytes, both accounts as predicted, and steps that fail undone on both.
#include <doctest/doctest.h>

#include "brim/autograd/free_recomputation.h"
#include "brim/autograd/offload_all.h"
#include "brim/memory/arena_planner.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/train/faults.h"
#include "brim/tests/train/planned_training.h"
#include "brim/tests/train/train_with.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int64_t kLeast = 2048;  // bytes that are worth a copy

/// What is kept otherwise goes to the host.
RecomputeOptions offload_all(bool with_free = false) {
  return {with_free ? "free, the rest offloaded" : "offloaded", [=] {
            auto free = with_free ? std::make_unique<autograd::FreeRecomputation>() : nullptr;
            return std::make_unique<autograd::OffloadAll>(kLeast, std::move(free));
          }};
}

TrainerOptions options_of(const TrainingCase& c, const RecomputeOptions& recompute,
                          int64_t host_bytes = 0) {
  TrainerOptions options = trainer_options(c);
  options.recompute = recompute;
  options.offload = {.enabled = true, .host_bytes = host_bytes};
  return options;
}

struct Predicted {
  StepMemory memory;
  memory::MakePlanner planner;
};

Predicted predict(const TrainingCase& c, const TrainerOptions& options,
                  const std::string& planner) {
  RehearsalOptions rehearsal = rehearsal_options(c);
  rehearsal.trainer = options;
  RehearsedPlan plan = plan_under(planner, [&](const auto& held) { rehearse(rehearsal, held); });
  return {plan.predicted,
          planner == "arena" ? memory::arena_planner(plan.plan) : memory::planner_named(planner)};
}

void check_same(const Trained& with, const Trained& kept) {
  CHECK(with.losses == kept.losses);
  CHECK(with.state == kept.state);
}

void check_as_predicted(const Trained& run, const StepMemory& predicted) {
  CHECK(run.stats.peak_reserved == predicted.peak_reserved);
  CHECK(run.stats.peak_live == predicted.peak_live);
  CHECK(run.stats.mismatches == 0);
  CHECK(run.host.peak_reserved == predicted.host_peak_reserved);
  CHECK(run.host.peak_live == predicted.host_peak_live);
}

TrainStepOptions options_for_step(bool offloads) {
  return {.seed = 5,
          .recompute = offloads ? offload_all() : RecomputeOptions{},
          .offload = {.enabled = offloads}};
}

/// A small step by hand, beside one that keeps everything.
struct Stepping {
  explicit Stepping(bool offloads)
      : sgd(model.named_parameters(), {.momentum = 0.9}),
        step(model, sgd, options_for_step(offloads)) {}
  double update(const Problem& problem) {
    return step.run(0.01, [&] { return cross_entropy(model(problem.images), problem.labels); });
  }
  std::vector<float> state() const {
    std::vector<nn::NamedTensor> all = model.named_parameters();
    for (const auto& more : {model.named_buffers(), sgd.named_state()})
      all.insert(all.end(), more.begin(), more.end());
    return values_of(all);
  }

  SmallNet model;
  optim::Sgd sgd;
  TrainStep step;
};

}  // namespace

TEST_CASE("a training that offloads has the same bits, and both accounts are as predicted") {
  for (const TrainingCase& c :
       {TrainingCase{"resnet18", 32, 4}, TrainingCase{"mobilenet_v2", 32, 4},
        TrainingCase{"resnet20", 32, 8, "adamw"}}) {
    CAPTURE(c.name());
    const Trained kept = train_as(c, trainer_options(c), memory::planner_named("direct"));
    CHECK(kept.losses.size() == 6);
    CHECK(kept.host.requests == 0);
    auto check_moved = [&](bool with_free, const char* planner) {
      CAPTURE(with_free);
      CAPTURE(planner);
      const TrainerOptions options = options_of(c, offload_all(with_free));
      const Predicted predicted = predict(c, options, planner);
      const Trained moved = train_as(c, options, predicted.planner);
      check_same(moved, kept);
      check_as_predicted(moved, predicted.memory);
      CHECK(moved.copies.copies_in > 0);
      CHECK(moved.copies.refused == 0);
      CHECK(moved.stats.peak_live < kept.stats.peak_live);
    };
    for (const char* planner : {"direct", "caching", "arena"}) check_moved(false, planner);
    check_moved(true, "arena");
    if (is_instrumented()) break;
  }
}

TEST_CASE("gradients of ResNet-18 are the same in each of five steps") {
  auto numbers_of = [](bool offloads) {
    const Problem problem = random_problem(4, 32, 10);
    auto model = nn::make_model("resnet18", {.classes = 10});
    optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});
    TrainStep step(*model, sgd, options_for_step(offloads));
    std::vector<double> losses;
    std::vector<std::vector<float>> gradients;
    for (int i = 0; i < 5; ++i) {
      step.begin();
      losses.push_back(
          step.micro_step([&] { return cross_entropy((*model)(problem.images), problem.labels); }));
      for (const auto& named : model->named_parameters())
        gradients.push_back(named.tensor.grad().to_vector<float>());
      step.prepare(0.01);
      step.commit();
    }
    const int64_t copies = offloads ? step.offload()->stats().copies_in : 0;
    return std::tuple(losses, gradients, values_of(model->named_buffers()), copies);
  };
  const auto [losses, gradients, buffers, none] = numbers_of(false);
  const auto [moved_losses, moved_gradients, moved_buffers, copies] = numbers_of(true);
  CHECK(moved_losses == losses);
  CHECK(moved_gradients == gradients);
  CHECK(moved_buffers == buffers);
  CHECK(copies >= 5 * 20);
}

TEST_CASE("a training that does not fit a device fits it with a host beside it") {
  const TrainingCase c{"resnet20", 32, 8};
  const TrainerOptions options = options_of(c, offload_all());
  const Trained kept = train_as(c, trainer_options(c), memory::planner_named("direct"));
  const Predicted predicted = predict(c, options, "arena");
  const int64_t device_bytes = predicted.memory.peak_reserved;
  CHECK(device_bytes < kept.stats.peak_live * 3 / 4);
  CHECK_THROWS_AS(train_as(c, trainer_options(c), memory::planner_named("direct"), device_bytes),
                  memory::OutOfMemory);
  const Trained moved = train_as(c, options, predicted.planner, device_bytes);
  check_same(moved, kept);
  check_as_predicted(moved, predicted.memory);
}

TEST_CASE("a host with too little room is used as far as it goes, as predicted") {
  const TrainingCase c{"resnet20", 32, 8};
  const Trained kept = train_as(c, trainer_options(c), memory::planner_named("direct"));
  const Predicted whole = predict(c, options_of(c, offload_all()), "direct");
  const int64_t room = whole.memory.host_peak_reserved / 4;
  for (const char* planner : {"direct", "caching", "arena"}) {
    CAPTURE(planner);
    const TrainerOptions options = options_of(c, offload_all(), room);
    const Predicted predicted = predict(c, options, planner);
    CHECK(predicted.memory.host_peak_reserved <= room);
    CHECK(predicted.memory.host_peak_live > room / 2);
    const Trained moved = train_as(c, options, predicted.planner);
    check_same(moved, kept);
    check_as_predicted(moved, predicted.memory);
    CHECK(moved.copies.refused > 0);
    CHECK(moved.stats.peak_live < kept.stats.peak_live);
    CHECK(moved.stats.peak_live > whole.memory.peak_live);
  }
}

TEST_CASE("parts of an update, updates in backward and out of place offload too") {
  const TrainingCase c{"resnet20", 32, 8};
  auto check_bits = [&](auto&& change) {
    TrainerOptions kept = trainer_options(c), moved = options_of(c, offload_all());
    change(kept);
    change(moved);
    check_same(train_as(c, moved, memory::planner_named("caching")),
               train_as(c, kept, memory::planner_named("caching")));
  };
  check_bits([](TrainerOptions& options) { options.micro_batch = 3; });
  check_bits([](TrainerOptions& options) { options.in_place = false; });
  TrainerOptions fused = options_of(c, offload_all());
  fused.fused_update = true;
  const Predicted predicted = predict(c, fused, "arena");
  const Trained moved = train_as(c, fused, predicted.planner);
  check_same(moved, train_as(c, trainer_options(c), memory::planner_named("direct")));
  check_as_predicted(moved, predicted.memory);
}

TEST_CASE("a step whose nth request is refused is undone on both accounts, and runs again") {
  const Problem problem = random_problem(4, 12, 4);
  Stepping kept(false);
  auto device = memory::capped_host_account("direct");
  auto host = memory::capped_host_account("direct");
  memory::AccountScope on_device(device);
  autograd::OffloadHostScope offloading(host);
  Stepping moved(true);
  auto check_refusals = [&](memory::Account& account, bool may_fail) {
    int64_t failed = 0, survived = 0;
    for (int64_t n = 1;; ++n) {
      REQUIRE(n < 2000);
      CAPTURE(n);
      const int64_t live = device->stats().live;
      const std::vector<float> state = moved.state();
      const int64_t requests = account.stats().requests;
      const auto shortage = refused_at(account, n, [&] { moved.update(problem); });
      const bool was_reached = account.stats().requests - requests >= n;
      CHECK(device->stats().live == live);
      CHECK(host->stats().live == 0);
      if (shortage) {
        CHECK(may_fail);
        CHECK(moved.state() == state);
        CHECK(moved.update(problem) == kept.update(problem));
        ++failed;
      } else {
        kept.update(problem);
        survived += was_reached ? 1 : 0;
      }
      REQUIRE(moved.state() == kept.state());
      if (!was_reached) break;
    }
    return std::pair(failed, survived);
  };
  {
    const auto [failed, survived] = check_refusals(*device, true);
    CHECK(failed > 40);
    CHECK(survived == 0);
  }
  {
    // What the host refuses stays on the device.
    const autograd::OffloadStats& stats = moved.step.offload()->stats();
    const int64_t before = stats.copies_out;
    CHECK(moved.update(problem) == kept.update(problem));
    const int64_t copies = stats.copies_out - before;
    CHECK(copies >= 4);
    const auto [failed, survived] = check_refusals(*host, false);
    CHECK(failed == 0);
    CHECK(survived == copies);
    CHECK(stats.refused == copies);
  }
}
