// Trainings that drop saved tensors and make them again: the same bits as without, within the
// budget that they were planned for, as predicted.
#include <doctest/doctest.h>

#include "brim/memory/arena_planner.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/train/planned_training.h"
#include "brim/tests/train/train_with.h"
#include "brim/train/recompute_plan.h"

using namespace brim;
using namespace brim::testing;

namespace {

TrainingSetup setup_of(const TrainingCase& c) { return {rehearsal_options(c), "arena"}; }

int64_t calls_of(const TrainingCase& c) {
  return static_cast<int64_t>(record_step(rehearsal_options(c)).values.size());
}

const TrainingCase kCases[] = {{"resnet20", 32, 8}, {"resnet18", 32, 4}, {"mobilenet_v2", 32, 4}};

}  // namespace

TEST_CASE("planned, free and segmented recomputation give the same bits, as predicted") {
  for (const TrainingCase& c : kCases) {
    CAPTURE(c.name());
    TrainingSetup setup = setup_of(c);
    setup.rehearsal.trainer.recompute = {};
    const int64_t most = predicted_memory(setup).peak_reserved;
    const Trained kept = train_with(c, {}, memory::planner_named("direct"));
    auto check_same = [&](const RecomputeOptions& recompute) {
      CAPTURE(recompute.name);
      setup.rehearsal.trainer.recompute = recompute;
      RehearsedPlan plan =
          plan_under("arena", [&](const auto& held) { rehearse(setup.rehearsal, held); });
      Trained with =
          train_with(c, recompute, memory::arena_planner(plan.plan), plan.predicted.peak_reserved);
      CHECK(with.losses == kept.losses);
      CHECK(with.state == kept.state);
      CHECK(with.stats.peak_reserved == plan.predicted.peak_reserved);
      CHECK(with.stats.peak_live == plan.predicted.peak_live);
      CHECK(with.stats.mismatches == 0);
      return plan.predicted.peak_reserved;
    };
    CHECK(check_same(free_recomputation()) < most);
    CHECK(check_same(segmented_recomputation(4, calls_of(c) / 4 + 1)) < most);
  }
}

TEST_CASE("free recomputation makes large results again by rows alone, with the same bits" *
          doctest::skip(is_instrumented())) {
  for (const TrainingCase& c : {TrainingCase{"mobilenet_v2", 64, 24}.with_epochs(1),
                                TrainingCase{"resnet18", 64, 40}.with_epochs(1)}) {
    CAPTURE(c.name());
    TrainingSetup setup = setup_of(c);
    setup.rehearsal.trainer.recompute = free_recomputation();
    const RehearsedPlan plan =
        plan_under("arena", [&](const auto& held) { rehearse(setup.rehearsal, held); });
    int64_t most = 0;
    for (const memory::TraceBuffer& buffer : plan.trace.buffers)
      if (buffer.origin.phase == memory::Phase::recompute) most = std::max(most, buffer.bytes);
    CHECK(most > 0);
    CHECK(most <= 5 << 19);  // some 2 MiB; of the results that are dropped the largest have 9 and 3
    const Trained kept = train_with(c, {}, memory::planner_named("direct"));
    const Trained with = train_with(c, free_recomputation(), memory::arena_planner(plan.plan),
                                    plan.predicted.peak_reserved);
    CHECK(with.losses == kept.losses);
    CHECK(with.state == kept.state);
    CHECK(with.stats.peak_reserved == plan.predicted.peak_reserved);
    CHECK(with.stats.mismatches == 0);
  }
}

TEST_CASE("a plan for a budget stays within it") {
  for (const TrainingCase& c : kCases) {
    CAPTURE(c.name());
    TrainingSetup setup = setup_of(c);
    const int64_t most = predicted_memory(setup).peak_reserved;
    const RecomputeChoice least = choose_recomputation(setup, 1);
    CHECK(!least.fits);
    REQUIRE(least.memory.peak_reserved < most);
    const Trained kept = train_with(c, {}, memory::planner_named("direct"));
    for (double share : {0.9, 0.6, 0.3, 0.1}) {
      if (is_instrumented() && share != 0.3) continue;
      const int64_t limit =
          least.memory.peak_reserved +
          static_cast<int64_t>(share * static_cast<double>(most - least.memory.peak_reserved));
      CAPTURE(share);
      const RecomputeChoice choice = choose_recomputation(setup, limit);
      REQUIRE(choice.fits);
      CHECK(choice.memory.peak_reserved <= limit);
      CHECK(choice.dropped > 0);
      TrainingSetup chosen = setup;
      chosen.rehearsal.trainer.recompute = choice.recompute;
      RehearsedPlan plan =
          plan_under("arena", [&](const auto& held) { rehearse(chosen.rehearsal, held); });
      Trained with = train_with(c, choice.recompute, memory::arena_planner(plan.plan), limit);
      CHECK(with.losses == kept.losses);
      CHECK(with.state == kept.state);
      CHECK(with.stats.peak_reserved == choice.memory.peak_reserved);
      CHECK(with.stats.mismatches == 0);
    }
  }
}

TEST_CASE("where everything fits nothing is dropped") {
  TrainingSetup setup = setup_of(kCases[0]);
  const RecomputeChoice choice = choose_recomputation(setup, predicted_memory(setup).peak_reserved);
  CHECK(choice.fits);
  CHECK(choice.dropped == 0);
  CHECK(choice.recompute.name == "off");
}

TEST_CASE("the graph of a step has its peak") {
  for (const TrainingCase& c : kCases) {
    CAPTURE(c.name());
    TrainingSetup setup = setup_of(c);
    setup.rehearsal.last_update = setup.rehearsal.evaluated = 0;
    RecordedStep step = record_step(setup.rehearsal);
    memory::RecomputePlanner planner(step.graph);
    const auto live = static_cast<double>(predicted_memory(setup).peak_live);
    CHECK(static_cast<double>(planner.keep_all().peak) == doctest::Approx(live).epsilon(0.02));
  }
}
