// The batch that is found for a budget runs within it, to the byte; every larger one is refused
// before its first step.
#include "brim/train/batch_tuning.h"

#include <doctest/doctest.h>

#include "brim/base/random.h"
#include "brim/memory/arena_planner.h"
#include "brim/tests/train/planned_training.h"
#include "brim/train/training_plan.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int kLarger = 10;  // batches above the one that is found

// Tunes for a limit, runs what is found, and plans what is not.
void check_budget(TrainingCase c, const std::string& planner, int64_t limit) {
  CAPTURE(c.name());
  CAPTURE(planner);
  CAPTURE(limit);
  TunedBatch tuned = tune_batch(
      {.rehearsal = [&](int64_t batch) { return rehearsal_options(c.with_batch(batch)); },
       .planner = planner,
       .limit = limit,
       .most = 64});
  REQUIRE(tuned.batch > 0);
  CHECK(tuned.memory.peak_reserved <= limit);
  c.batch = tuned.batch;
  memory::MakePlanner make = planner == "arena"
                                 ? memory::arena_planner(plan_on_meta(rehearsal_of(c)).plan)
                                 : memory::planner_named(planner);
  memory::AccountStats measured = train(c, make);
  CHECK(measured.peak_reserved == tuned.memory.peak_reserved);
  CHECK(measured.peak_live == tuned.memory.peak_live);
  for (int i = 1; i <= kLarger && tuned.batch + i <= 64; ++i) {
    c.batch = tuned.batch + i;
    CHECK(predicted(c, planner).peak_reserved > limit);
  }
  if (tuned.batch < 64) CHECK(tuned.next_takes > limit);
}

}  // namespace

TEST_CASE("random budgets: the batch runs in them as predicted, ten larger ones are refused") {
  RandomStream random{RandomKey{3}};
  for (const char* model : {"resnet20", "mobilenet_v2"}) {
    TrainingCase c{model, 32, 4, "sgd"};
    const int64_t least = predicted(c, "arena").peak_reserved;
    c.batch = 24;
    const int64_t most = predicted(c, "arena").peak_reserved;
    for (const char* planner : {"arena", "arena", "arena", "caching", "direct"}) {
      int64_t spread = static_cast<int64_t>(random.below(static_cast<uint64_t>(most - least)));
      check_budget(c, planner, least + least / 5 + spread);
    }
  }
}

TEST_CASE("a budget of exactly the peak of a batch is enough for it; less is not") {
  TrainingCase c{"resnet20", 32, 7, "adamw"};
  int64_t peak = predicted(c, "arena").peak_reserved;
  BatchTuning tuning{
      .rehearsal = [&](int64_t batch) { return rehearsal_options(c.with_batch(batch)); },
      .limit = peak,
      .most = 100};
  TunedBatch tuned = tune_batch(tuning);
  CHECK(tuned.batch == 7);
  CHECK(tuned.memory.peak_reserved == peak);
  CHECK(tuned.rehearsals < 30);
  tuning.limit = peak - memory::kAlignment;
  CHECK(tune_batch(tuning).batch == 6);
  tuning.multiple = 4;
  CHECK(tune_batch(tuning).batch == 4);
  tuning.limit = peak;
  tuning.most = 5;
  tuning.multiple = 1;
  tuned = tune_batch(tuning);
  CHECK(tuned.batch == 5);
  CHECK(tuned.next_takes == 0);
}

TEST_CASE("a budget below the smallest batch: nothing fits, and what the smallest takes is said") {
  TrainingCase c{"mobilenet_v2", 32, 4, "sgd"};  // batch norm cannot train with one 1x1 image
  auto whole = [&](int64_t batch) {
    RehearsalOptions options = rehearsal_options(c.with_batch(batch));
    options.last_update = 0;
    options.evaluated = batch;
    return options;
  };
  BatchTuning tuning{.rehearsal = whole, .limit = 1 << 20, .most = 100};
  TunedBatch tuned = tune_batch(tuning);
  CHECK(tuned.batch == 0);
  CHECK(tuned.least == 2);
  StepMemory least =
      plan_on_meta([&](const auto& state_is_held) { rehearse(whole(2), state_is_held); }).predicted;
  CHECK(tuned.memory.peak_reserved == least.peak_reserved);
  CHECK_THROWS_WITH_AS(tune_batch({.rehearsal = tuning.rehearsal, .limit = 0}),
                       "batch: expected a limit above 0, got 0", ValueError);
}
