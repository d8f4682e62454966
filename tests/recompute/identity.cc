#include "brim/tests/recompute/identity.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "brim/memory/arena_planner.h"
#include "brim/tests/recompute/modes.h"
#include "brim/tests/recompute/observed_training.h"
#include "brim/tests/support/instrumented.h"
#include "brim/train/rehearsed_plan.h"

namespace brim::testing {
namespace {

const std::vector<std::string> kPlanners{"arena", "caching", "direct"};

/// Runs it under the planner, for the arena with the plan that was made for it.
ObservedTraining observe_under(const std::string& planner, const ZooTraining& training,
                               const Mode& mode) {
  CAPTURE(planner);
  TrainingSetup setup = setup_of(training, planner);
  setup.rehearsal.trainer.recompute = mode.recompute;
  setup.rehearsal.trainer.offload = mode.offload;
  const RehearsedPlan plan = plan_under(
      planner, [&](const auto& state_is_held) { rehearse(setup.rehearsal, state_is_held); });
  ObserveOptions options{
      .recompute = mode.recompute, .offload = mode.offload, .cap = plan.predicted.peak_reserved};
  options.planner = plan.plan ? memory::arena_planner(plan.plan) : memory::planner_named(planner);
  if (!plan.plan) options.cap = memory::Source::kUnlimited;  // near its limit caching gives back
  ObservedTraining observed = observe(training, options);
  CHECK(observed.stats.live == 0);
  CHECK(observed.stats.peak_reserved == plan.predicted.peak_reserved);
  CHECK(observed.stats.peak_live == plan.predicted.peak_live);
  CHECK(observed.stats.mismatches == 0);
  CHECK(observed.host.live == 0);
  CHECK(observed.host.peak_reserved == plan.predicted.host_peak_reserved);
  CHECK(observed.host.peak_live == plan.predicted.host_peak_live);
  return observed;
}

void check_dtype(const ZooTraining& training, const std::vector<Mode>& modes, bool in_turns) {
  const ObservedTraining kept = observe(training, {});
  REQUIRE(static_cast<int64_t>(kept.losses.size()) == training.steps);
  CHECK(kept.replays == 0);
  size_t turn = training.dtype == Dtype::float32 ? 0 : 1;
  for (const Mode& mode : modes) {
    CAPTURE(mode.name);
    for (const std::string& planner : kPlanners) {
      if (in_turns && planner != kPlanners[turn % kPlanners.size()]) continue;
      const ObservedTraining less = observe_under(planner, training, mode);
      CHECK(difference(kept, less) == "");
      CHECK((mode.offload.enabled ? less.fetched : less.replays) >= training.steps);
      if (training.has_rows && mode.reads_rows) CHECK(less.by_rows >= training.steps);
    }
    ++turn;
  }
  const std::string planner = kPlanners[turn % kPlanners.size()];
  CHECK(difference(kept, observe_under(planner, training, {"everything kept", {}})) == "");
}

}  // namespace

void check_identity(const std::string& model) {
  CAPTURE(model);
  ZooTraining training = zoo_training(model);
  if (skips(training)) return;
  const std::vector<Mode> planned = modes_of(training);
  for (Dtype dtype : {Dtype::float32, Dtype::float64}) {
    if (dtype == Dtype::float64 && training.leaves_out_float64) continue;
    CAPTURE(to_string(dtype));
    training.dtype = dtype;
    std::vector<Mode> modes = planned;
    std::ranges::move(modes_without_plan(training), std::back_inserter(modes));
    // Planners see bytes, not what they are of: in float64 each is there, but not for each mode.
    const bool in_turns = !training.is_small || is_instrumented() || dtype == Dtype::float64;
    check_dtype(training, modes, in_turns);
  }
}

}  // namespace brim::testing
