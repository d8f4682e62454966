// Trainings that plan what waits in host memory: who may go there, what the planner makes of it
// beside recomputation, and that the numbers stay the same, in the bytes that were predicted.
#include <doctest/doctest.h>

#include <algorithm>

#include "brim/memory/arena_planner.h"
#include "brim/tests/train/planned_training.h"
#include "brim/tests/train/train_with.h"
#include "brim/train/recompute_plan.h"

using namespace brim;
using namespace brim::testing;
using memory::Fate;

namespace {

const TrainingCase kCase{"resnet20", 32, 8};

TrainingSetup setup_of(bool offloads, int64_t host_bytes = 0) {
  TrainingSetup setup{rehearsal_options(kCase), "arena"};
  setup.rehearsal.trainer.offload = {.enabled = offloads, .host_bytes = host_bytes};
  return setup;
}

/// Between what is needed at least without a host and what everything kept takes.
int64_t limit_at(double share) {
  const int64_t most = predicted_memory(setup_of(false)).peak_reserved;
  const int64_t least = choose_recomputation(setup_of(false), 1).memory.peak_reserved;
  return least + static_cast<int64_t>(share * static_cast<double>(most - least));
}

int64_t count(const autograd::Fates& fates, Fate wanted) {
  int64_t number = 0;
  for (const auto& call : fates) number += std::ranges::count(call, wanted);
  return number;
}

}  // namespace

TEST_CASE("the graph of a step has a host where the training offloads") {
  const RecordedStep without = record_step(setup_of(false).rehearsal);
  CHECK(without.graph.host_bytes_per_second == 0);
  const RecordedStep step = record_step(setup_of(true, 12345).rehearsal);
  CHECK(step.graph.host_bytes_per_second == DeviceSpeed{}.host_bytes_per_second);
  CHECK(step.graph.host_bytes == 12345);
  CHECK(record_step(setup_of(true).rehearsal).graph.host_bytes == memory::host_memory());
  int64_t may = 0;
  for (const auto& value : step.graph.values) {
    may += value.may_offload;
    if (value.may_offload) CHECK((value.bytes == 0 || value.bytes >= 65536));
  }
  CHECK(may > 20);
}

TEST_CASE("only what a backward function reads is offloaded, and no op runs again for it") {
  // Op 0 makes value 0, which op 1 reads and backward does not; op 1 makes value 1, which it does.
  RecordedStep step{.graph = {.values = {{1 << 20, 0, true}, {1 << 20, 1, true}},
                              .ops = {{}, {.reads = {0}}},
                              .steps = {{.reads = {1}}}},
                    .values = {{0}, {1}},
                    .makers = {0, 1}};
  const autograd::Fates both = fates_of(step, {Fate::offload, Fate::offload});
  CHECK(both == autograd::Fates{{}, {Fate::offload}});
  // Value 1 is made again from value 0, which then must be there.
  const autograd::Fates again = fates_of(step, {Fate::offload, Fate::retain});
  CHECK(again == autograd::Fates{{}, {Fate::retain}});
}

TEST_CASE("a plan that offloads fits, is no slower, and changes no number") {
  const Trained kept = train_with(kCase, {}, memory::planner_named("direct"));
  for (double share : {0.7, 0.3}) {
    CAPTURE(share);
    const int64_t limit = limit_at(share);
    const RecomputeChoice without = choose_recomputation(setup_of(false), limit);
    TrainingSetup setup = setup_of(true);
    const RecomputeChoice choice = choose_recomputation(setup, limit);
    REQUIRE(choice.fits);
    CHECK(without.offloaded == 0);
    CHECK(choice.offloaded > 0);
    CHECK(choice.plan.host_peak > 0);
    CHECK(choice.plan.extra_seconds <= without.plan.extra_seconds);
    setup.rehearsal.trainer.recompute = choice.recompute;
    RehearsedPlan plan =
        plan_under("arena", [&](const auto& held) { rehearse(setup.rehearsal, held); });
    CHECK(plan.predicted.peak_reserved == choice.memory.peak_reserved);
    const Trained with = train_with(kCase, choice.recompute, memory::arena_planner(plan.plan),
                                    limit, setup.rehearsal.trainer.offload);
    CHECK(with.losses == kept.losses);
    CHECK(with.state == kept.state);
    CHECK(with.stats.peak_reserved == plan.predicted.peak_reserved);
    CHECK(with.stats.peak_reserved <= limit);
    CHECK(with.stats.mismatches == 0);
  }
}

TEST_CASE("means that are not allowed are not used") {
  const int64_t limit = limit_at(0.6);
  const RecomputeChoice drops = choose_recomputation(setup_of(true), limit, {.offload = false});
  CHECK(drops.offloaded == 0);
  CHECK(drops.recompute.name == choose_recomputation(setup_of(false), limit).recompute.name);
  const RecomputeChoice moves = choose_recomputation(setup_of(true), limit, {.drop = false});
  CHECK(moves.offloaded > 0);
  CHECK(moves.dropped == 0);
  CHECK(count({moves.plan.fates}, Fate::retain) + count({moves.plan.fates}, Fate::remake) == 0);
}

TEST_CASE("the least with every means is the least again: it fits, and a page less does not") {
  for (const RecomputeMeans means : {RecomputeMeans{}, {.drop = false}, {.offload = false}}) {
    const int64_t least = choose_recomputation(setup_of(true), 1, means).memory.peak_reserved;
    CHECK(choose_recomputation(setup_of(true), least, means).fits);
    const RecomputeChoice refused = choose_recomputation(setup_of(true), least - 4096, means);
    CHECK_FALSE(refused.fits);
    CHECK(refused.memory.peak_reserved == least);
  }
}

TEST_CASE("a host has room for so much") {
  constexpr int64_t kRoom = 3 << 20;
  const RecomputeChoice choice = choose_recomputation(setup_of(true, kRoom), limit_at(0.5));
  CHECK(choice.fits);
  CHECK(choice.plan.host_peak <= kRoom);
}

TEST_CASE("waits for copies count as time") {
  RehearsalOptions training = rehearsal_options(kCase);
  training.effective_batch = 3 * training.batch;
  const double without = predicted_seconds(training);
  training.trainer.recompute.wait_seconds = 1;
  CHECK(predicted_seconds(training) == doctest::Approx(without + 3));
}

TEST_CASE("the ladder has a rung of it, where the training offloads") {
  const int64_t limit = limit_at(0.6);
  const LadderResult without = standard_ladder().climb(setup_of(false), {.limit = limit});
  CHECK(std::ranges::any_of(without.not_offered, [](const NotOffered& remedy) {
    return remedy.name == "offload" && remedy.why == "the training does not offload";
  }));
  const LadderResult with = standard_ladder().climb(setup_of(true), {.limit = limit});
  const auto rung =
      std::ranges::find(with.considered, std::vector<std::string>{"offload"}, &Rung::names);
  REQUIRE(rung != with.considered.end());
  CHECK(rung->remedies.front().starts_with("offload "));
  CHECK_FALSE(rung->changes_numbers);
  CHECK_FALSE(rung->is_proposed_only);
  CHECK(rung->relative_time >= 1);
}
