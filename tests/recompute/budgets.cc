#include "brim/tests/recompute/budgets.h"

#include <doctest/doctest.h>

#include "brim/memory/arena_planner.h"
#include "brim/tests/recompute/modes.h"
#include "brim/tests/recompute/observed_training.h"
#include "brim/tests/support/instrumented.h"
#include "brim/train/recompute_plan.h"

namespace brim::testing {
namespace {

void check_budget(const ZooTraining& training, int64_t limit, const ObservedTraining& kept) {
  CAPTURE(limit);
  const RecomputeChoice choice = choose_recomputation(setup_of(training), limit);
  REQUIRE(choice.fits);
  CHECK(choice.memory.peak_reserved <= limit);
  const ObservedTraining run = observe(training, {.recompute = choice.recompute,
                                                  .planner = memory::arena_planner(choice.arena),
                                                  .cap = limit});
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
  const int budgets = is_instrumented() ? 3 : training.is_small ? 20 : 6;
  for (int i = 0; i < budgets; ++i)
    check_budget(training, range.at(static_cast<double>(i) / (budgets - 1)), kept);
  // `range.least` is what a limit of one byte was refused with.
  const RecomputeChoice refused = choose_recomputation(setup_of(training), range.least - 4096);
  CHECK_FALSE(refused.fits);
  CHECK(refused.memory.peak_reserved == range.least);
}

}  // namespace brim::testing
