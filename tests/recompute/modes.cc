#include "brim/tests/recompute/modes.h"

#include <numeric>

#include "brim/autograd/offload_all.h"
#include "brim/base/bytes.h"
#include "brim/memory/out_of_memory.h"
#include "brim/train/recompute_plan.h"

namespace brim::testing {
namespace {

RecomputeOptions segments(const ZooTraining& training, int64_t count) {
  const auto calls = std::ssize(record_step(setup_of(training).rehearsal).values);
  return segmented_recomputation(count, ceil_div(calls, count));
}

RecomputeOptions planned(const ZooTraining& training, int64_t budget) {
  RecomputeChoice choice = choose_recomputation(setup_of(training), budget);
  expect<ValueError>(choice.fits && choice.dropped > 0, "modes",
                     "expected a plan for {} bytes that drops something", budget);
  return choice.recompute;
}

bool goes_through(TrainingSetup setup, int64_t budget) {
  setup.rehearsal.trainer.recompute = dynamic_eviction(budget);
  try {
    predicted_memory(setup);
    return true;
  } catch (const memory::OutOfMemory&) {
    return false;
  }
}

// Live bytes, to 4 KiB. Of these small images most live bytes are parameters and gradients, which
// stay: of any budget much above the least there would be little to evict.
int64_t least_eviction_budget(const ZooTraining& training) {
  const TrainingSetup setup = setup_of(training, "direct");
  const StepMemory kept = predicted_memory(setup);
  int64_t fails_at = kept.state, least = kept.peak_live;
  while (least - fails_at > 4096) {
    const int64_t budget = std::midpoint(fails_at, least);
    (goes_through(setup, budget) ? least : fails_at) = budget;
  }
  return least;
}

const std::vector<autograd::Fate> kFates{autograd::Fate::offload, autograd::Fate::retain,
                                         autograd::Fate::keep, autograd::Fate::remake};

RecomputeOptions offload_all() {
  return {"offloaded", [] { return std::make_unique<autograd::OffloadAll>(); }};
}

}  // namespace

ByteRange byte_range(const ZooTraining& training) {
  const TrainingSetup setup = setup_of(training);
  return {.least = choose_recomputation(setup, 1).memory.peak_reserved,
          .most = predicted_memory(setup).peak_reserved};
}

RecomputeOptions planned_in_turns(const RehearsalOptions& training,
                                  const std::vector<autograd::Fate>& fates) {
  autograd::Fates planned;
  size_t turn = 0;
  for (const auto& outputs : record_step(training).values)
    planned.emplace_back(outputs.size(), fates[turn++ % fates.size()]);
  return planned_recomputation(std::make_shared<autograd::Fates>(std::move(planned)));
}

std::vector<Mode> modes_of(const ZooTraining& training) {
  const TrainingSetup setup = setup_of(training);
  const RecomputeChoice least = choose_recomputation(setup, 1);
  const ByteRange range{.least = least.memory.peak_reserved,
                        .most = predicted_memory(setup).peak_reserved};
  return {
      {.name = "free", .recompute = free_recomputation(), .reads_rows = true},
      {"two segments", segments(training, 2)},
      {"five segments", segments(training, 5)},
      // Dropout's masks and what else is near the end, which the others keep.
      {"everything dropped", planned_in_turns(setup.rehearsal, {autograd::Fate::retain})},
      {.name = "planned for much",
       .recompute = planned(training, range.at(0.75)),
       .reads_rows = true},
      {.name = "planned for some",
       .recompute = planned(training, range.at(0.4)),
       .reads_rows = true},
      {"planned for the least", least.recompute},
      {"all fates in turns", planned_in_turns(setup.rehearsal, kFates), {.enabled = true}},
  };
}

std::vector<Mode> modes_without_plan(const ZooTraining& training) {
  return {
      {"evicted", dynamic_eviction(least_eviction_budget(training))},
      {"all offloaded", offload_all(), {.enabled = true}},
  };
}

}  // namespace brim::testing
