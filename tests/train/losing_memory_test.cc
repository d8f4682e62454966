// A device that loses bytes while a training runs, and gets them back: the training is planned
// again with other micro-batches of the same updates, and learns the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "brim/memory/out_of_memory.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/tests/train/plain_net.h"
#include "brim/train/checkpoint.h"
#include "brim/train/ladder.h"
#include "brim/train/live_rehearsal.h"
#include "brim/train/trainer.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int64_t kImages = 12;  // of an update
constexpr int64_t kSteps = 10;
const char* const kPlanners[] = {"arena", "caching", "direct"};

// Calls `during` in the middle of each forward on the device.
struct WatchedNet final : nn::Module {
  WatchedNet() { register_modules({{"body", body}}); }
  Tensor forward(Tensor x) override {
    Tensor y = body.conv1(std::move(x));
    if (during && !y.device().is_meta()) during();
    y = relu(body.conv2(relu(std::move(y))));
    return body.fc(body.drop(global_avg_pool(std::move(y))));
  }
  PlainNet body;
  std::function<void()> during;
};

// When the device loses bytes, and when they come back: counted in updates that are done, and in
// forwards since, as the loss may come in the middle of a step.
struct Schedule {
  std::string planner = "arena";
  int64_t lost_after = kSteps, forwards = 0, back_after = kSteps;
  double left = 0.6;  // of the capacity
};

struct Outcome {
  std::vector<double> losses;
  TrainerCounts counts;
  std::vector<int64_t> micro_batches;  // of each step
  int64_t peak = 0, capacity = 0, live_before = 0, live_after = 0;
};

TrainerOptions options_for(const std::string& planner) {
  return {.steps = kSteps,
          .seed = 4,
          .schedule = optim::ConstantSchedule{.rate = 0.1},
          .input = {.dtype = Dtype::float64},
          .planner = planner};
}

struct Training {
  WatchedNet model;
  optim::Sgd sgd{model.named_parameters(), {.momentum = 0.9}};
  RandomBatches source{{.images = kImages, .batches = 5}};
};

// What the whole batch takes: the capacity of the device as long as it loses none.
int64_t capacity_of(const std::string& planner) {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  Training t;
  TrainerOptions options = options_for(planner);
  return predicted_memory({rehearsal_of(t.model, t.sgd, {t.source}, options, kImages), planner})
      .peak_reserved;
}

Outcome train(const Schedule& schedule) {
  Outcome outcome{.capacity = capacity_of(schedule.planner)};
  const auto less = static_cast<int64_t>(schedule.left * static_cast<double>(outcome.capacity));
  auto account = memory::capped_host_account("direct", outcome.capacity);
  memory::AccountScope scope(account);
  {
    Training t;
    Trainer trainer(t.model, t.sgd, {t.source}, options_for(schedule.planner));
    outcome.live_before = account->stats().live;
    int64_t forwards = 0, cap = account->cap();
    t.model.during = [&] {
      if (trainer.updates() >= schedule.lost_after && trainer.updates() < schedule.back_after &&
          forwards++ == schedule.forwards)
        account->set_cap(less);
    };
    trainer.on_step = [&](const StepReport& step) {
      outcome.losses.push_back(step.loss);
      outcome.micro_batches.push_back(trainer.micro_batch());
      // A step begun after the loss holds no more than is left.
      if (account->cap() == cap) CHECK(account->stats().reserved <= cap);
      cap = account->cap();
      if (step.step == schedule.back_after) account->set_cap(cap = outcome.capacity);
    };
    trainer.run();
    outcome.counts = trainer.counts();
    outcome.live_after = account->stats().live;
    outcome.peak = account->stats().peak_reserved;
    CHECK(account->stats().mismatches == 0);
  }
  CHECK(account->stats().live == 0);
  return outcome;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("fifty times a device loses bytes and gets them back: the losses stay the same") {
  const Outcome calm = train({});
  CHECK(calm.counts.replans == 1);  // when it began
  CHECK(std::ranges::all_of(calm.micro_batches, [](int64_t m) { return m == kImages; }));
  RandomStream random(RandomKey{11});
  int64_t ran_out = 0, smaller = 0, larger_again = 0;
  for (int i = 0; i < 50; ++i) {
    Schedule schedule{.planner = kPlanners[i % 3],
                      .forwards = static_cast<int64_t>(random.below(3)),
                      .left = 0.55 + 0.25 * static_cast<double>(random.uniform())};
    schedule.lost_after = static_cast<int64_t>(random.below(kSteps - 1));
    schedule.back_after =
        schedule.lost_after + 1 +
        static_cast<int64_t>(random.below(static_cast<uint64_t>(kSteps - schedule.lost_after)));
    CAPTURE(schedule.planner);
    CAPTURE(schedule.lost_after);
    CAPTURE(schedule.back_after);
    const Outcome run = train(schedule);
    CHECK(largest_difference(run.losses, calm.losses) < 1e-9);
    CHECK(run.counts.violations == 0);
    CHECK(run.live_after == run.live_before);
    CHECK(run.peak <= run.capacity);
    ran_out += run.counts.out_of_memory;
    smaller += std::ranges::count_if(run.micro_batches, [](int64_t m) { return m < kImages; });
    larger_again += run.micro_batches.back() == kImages && run.counts.replans > 2;
  }
  // The arena asks for nothing more, and so never runs out; the others do.
  CHECK(ran_out > 5);
  CHECK(smaller > 30);
  CHECK(larger_again > 3);
}

TEST_CASE("bytes that come back are used from the next epoch on") {
  // Caching, with segments far larger than this network, fits the whole batch with less.
  for (const char* planner : {"arena", "direct"}) {
    CAPTURE(planner);
    // Epochs have five updates.
    const Outcome run = train({.planner = planner, .lost_after = 1, .back_after = 3});
    CHECK(run.micro_batches[0] == kImages);
    CHECK(run.micro_batches[2] < kImages);
    CHECK(run.micro_batches[4] < kImages);
    CHECK(run.micro_batches[5] == kImages);
    CHECK(run.counts.replans == 3);
  }
}

TEST_CASE("where nothing fits any more, a checkpoint is left, and the training goes on from it") {
  const Outcome calm = train({});
  for (const char* planner : kPlanners) {
    CAPTURE(planner);
    TempFolder folder;
    Checkpoints checkpoints(folder.path(), {});
    const int64_t capacity = capacity_of(planner);
    std::vector<double> losses;
    auto run = [&](bool loses) {
      auto account = memory::capped_host_account("direct", capacity);
      memory::AccountScope scope(account);
      Training t;
      TrainerOptions options = options_for(planner);
      options.checkpoints = &checkpoints;
      Trainer trainer(t.model, t.sgd, {t.source}, options);
      trainer.on_step = [&](const StepReport& step) {
        losses.push_back(step.loss);
        if (loses && step.step == 7) account->set_cap(1000);
      };
      trainer.resume();
      trainer.run();
    };
    CHECK_THROWS_WITH_AS(run(true), doctest::Contains("out of memory: asked cpu for"),
                         memory::OutOfMemory);
    CHECK(losses.size() == 7);
    run(false);
    CHECK(losses == calm.losses);
  }
}
