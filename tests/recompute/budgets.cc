#include "brim/tests/recompute/budgets.h"

#include <doctest/doctest.h>

#include "brim/memory/arena_planner.h"
#include "brim/tests/recompute/modes.h"
#include "brim/tests/recompute/observed_training.h"
#include "brim/train/recompute_plan.h"
#include "brim/train/training_plan.h"

namespace brim::testing {
namespace {

/// Under the arena with what was chosen, on a device that has no more than `limit` bytes.
ObservedTraining run_within(const ZooTraining& training, const RecomputeChoice& choice,
                            int64_t limit) {
  TrainingSetup setup = setup_of(training);
  setup.rehearsal.trainer.recompute = choice.recompute;
  const TrainingPlan plan = plan_under(
      "arena", [&](const auto& state_is_held) { rehearse(setup.rehearsal, state_is_held); });
  return observe(
      training,
      {.recompute = choice.recompute, .planner = memory::arena_planner(plan.plan), .cap = limit});
}

void check_budget(const ZooTraining& training, int64_t limit, const ObservedTraining& kept) {
  CAPTURE(limit);
  const RecomputeChoice choice = choose_recomputation(setup_of(training), limit);
  REQUIRE(choice.fits);
  CHECK(choice.memory.peak_reserved <= limit);
  const ObservedTraining run = run_within(training, choice, limit);
  CHECK(run.stats.peak_reserved <= limit);
  CHECK(run.stats.peak_reserved == choice.memory.peak_reserved);
  CHECK(run.stats.peak_live == choice.memory.peak_live);
  CHECK(run.stats.mismatches == 0);
  CHECK(difference(kept, run) == "");
}

}  // namespace

void check_budgets(const std::string& model) {
  CAPTURE(model);
  ZooTraining training = zoo_training(model);
  if (skips(training)) return;
  training.steps = 2;
  const ByteRange range = byte_range(training);
  REQUIRE(range.least < range.most);
  const ObservedTraining kept = observe(training, {});
  const int budgets = is_instrumented() ? 3 : 20;
  for (int i = 0; i < budgets; ++i)
    check_budget(training, range.at(static_cast<double>(i) / (budgets - 1)), kept);
  for (int64_t below : {int64_t{1}, range.least / 2, range.least - 4096}) {
    CAPTURE(below);
    const RecomputeChoice refused = choose_recomputation(setup_of(training), below);
    CHECK_FALSE(refused.fits);
    CHECK(refused.memory.peak_reserved == range.least);
  }
}

}  // namespace brim::testing
