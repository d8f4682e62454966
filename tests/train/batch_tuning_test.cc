// The batch that is found for a budget runs within it, to the byte; every larger one is refused
// before its first step.
#include "brim/train/batch_tuning.h"

#include <doctest/doctest.h>

#include <utility>

#include "brim/base/random.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/train/planned_training.h"
#include "brim/train/rehearsed_plan.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int kLarger = 10;  // batches above the one that is found
constexpr int64_t kMost = 64;

TunedBatch tune(const TrainingCase& c, const std::string& planner, int64_t limit) {
  return tune_batch(
      {.rehearsal = [&](int64_t batch) { return rehearsal_options(c.with_batch(batch)); },
       .planner = planner,
       .limit = limit,
       .most = kMost});
}

bool fits(const TrainingCase& c, const std::string& planner, int64_t limit) {
  if (planner == "arena") return predicted(c, planner).peak_reserved <= limit;
  try {
    measure_on_meta(memory::planner_named(planner), rehearsal_of(c), {.capacity = limit});
    return true;
  } catch (const memory::OutOfMemory&) {
    return false;
  }
}

// What was found runs under the limit, which its account has as a cap: it throws nothing, so it
// never ran out.
void check_run(const TrainingCase& c, const std::string& planner, int64_t limit,
               const StepMemory& memory) {
  CHECK(memory.peak_reserved <= limit);
  memory::MakePlanner make = planner == "arena"
                                 ? memory::arena_planner(plan_on_meta(rehearsal_of(c)).plan)
                                 : memory::planner_named(planner);
  memory::AccountStats measured = train(c, make, limit);
  CHECK(measured.peak_reserved == memory.peak_reserved);
  CHECK(measured.peak_live == memory.peak_live);
}

// Tunes for a limit, runs what is found, and plans what is not.
void check_budget(const TrainingCase& c, const std::string& planner, int64_t limit) {
  CAPTURE(c.name());
  CAPTURE(planner);
  CAPTURE(limit);
  TunedBatch tuned = tune(c, planner, limit);
  REQUIRE(tuned.batch > 0);
  check_run(c.with_batch(tuned.batch), planner, limit, tuned.memory);
  for (int i = 1; i <= kLarger && tuned.batch + i <= kMost; ++i)
    CHECK(!fits(c.with_batch(tuned.batch + i), planner, limit));
  if (tuned.batch < kMost) CHECK(tuned.next_takes > limit);
}

}  // namespace

TEST_CASE("random budgets: the batch runs in them as predicted, ten larger ones are refused") {
  RandomStream random{RandomKey{3}};
  for (const char* model : {"resnet20", "mobilenet_v2"}) {
    TrainingCase c{model, 32, 4, "sgd"};
    const int64_t least = predicted(c, "arena").peak_reserved;
    c.batch = 24;
    const int64_t most = predicted(c, "arena").peak_reserved;
    for (const char* planner : {"arena", "caching", "direct", "arena", "arena"}) {
      if (is_instrumented() && planner != std::string("caching")) continue;
      int64_t spread = static_cast<int64_t>(random.below(static_cast<uint64_t>(most - least)));
      check_budget(c, planner, least + least / 5 + spread);
    }
  }
}

TEST_CASE("near its limit caching fits more than without one, and never less" *
          doctest::skip(is_instrumented())) {
  RandomStream random{RandomKey{4}};
  int more = 0;
  for (const char* model : {"resnet20", "mobilenet_v2"}) {
    TrainingCase c{model, 32, 4, "sgd"};
    std::vector<int64_t> without;  // a limit, by batch, from 4 on
    for (int64_t batch = 4; batch <= 32; ++batch)
      without.push_back(predicted(c.with_batch(batch), "caching").peak_reserved);
    for (int round = 0; round < 4; ++round) {
      const int64_t limit =
          without[2] +
          static_cast<int64_t>(random.below(static_cast<uint64_t>(without.back() - without[2])));
      CAPTURE(c.name());
      CAPTURE(limit);
      TunedBatch tuned = tune(c, "caching", limit);
      for (size_t i = 0; i < without.size(); ++i)
        if (without[i] <= limit) CHECK(tuned.batch >= static_cast<int64_t>(i) + 4);
      const TrainingCase found = c.with_batch(tuned.batch);
      more += predicted(found, "caching").peak_reserved > limit;
      check_run(found, "caching", limit, tuned.memory);
    }
  }
  CHECK(more > 0);
}

TEST_CASE("two epochs of rehearsal stand for more, near the limit too") {
  // Where steps inherit what others left cached, these take more later, or run out.
  for (auto [model, limit] :
       {std::pair("resnet20", 39'304'562), std::pair("mobilenet_v2", 51'265'969)}) {
    TrainingCase c{model, 32, 4, "sgd"};
    CAPTURE(c.name());
    TunedBatch tuned = tune(c, "caching", limit);
    check_run(c.with_batch(tuned.batch).with_epochs(5), "caching", limit, tuned.memory);
  }
}

TEST_CASE("a rehearsal has the capacity that it is given, and runs out of it") {
  TrainingCase c{"resnet20", 32, 4, "sgd"};
  for (const char* planner : {"direct", "caching"}) {
    CAPTURE(planner);
    memory::MakePlanner make = memory::planner_named(planner);
    StepMemory free = predicted(c, planner);
    StepMemory exact = measure_on_meta(make, rehearsal_of(c), {.capacity = free.peak_reserved});
    CHECK(exact.peak_reserved == free.peak_reserved);
    CHECK(exact.peak_live == free.peak_live);
    CHECK(exact.state == free.state);
    const int64_t less = free.peak_live - memory::kAlignment;
    try {
      measure_on_meta(make, rehearsal_of(c), {.capacity = less});
      FAIL("it fits");
    } catch (const memory::OutOfMemory& error) {
      CHECK(error.shortage().total == less);
      CHECK(error.shortage().device == Device::meta());
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
