// How much a way to recompute makes again, counted in a rehearsal: what a plan says that it drops,
// and of other ways what follows from what they are.
#include "brim/train/made_again.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "brim/tests/train/planned_training.h"
#include "brim/train/predicted_time.h"
#include "brim/train/recompute_plan.h"

using namespace brim;
using namespace brim::testing;

namespace {

const TrainingCase kCase{"resnet20", 32, 8};

int64_t calls_of(const RecordedStep& step) { return std::ssize(step.values); }

/// Of values that a plan drops, those that nobody makes again: all who read them do with what they
/// were made from.
int64_t never_needed(const RecordedStep& step, const memory::RecomputePlan& plan) {
  int64_t count = 0;
  const std::vector<bool> saved = saved_values(step);
  for (size_t v = 0; v < saved.size(); ++v) {
    const auto value = static_cast<int32_t>(v);
    if (!saved[v] || !autograd::is_made_again(plan.fates[v])) continue;
    count += std::ranges::all_of(step.graph.steps, [&](const auto& reader) {
      return std::ranges::count(reader.reads, value) ==
             std::ranges::count(reader.or_sources, value);
    });
  }
  return count;
}

}  // namespace

TEST_CASE("what a plan drops is what its rehearsal makes again") {
  const TrainingSetup setup{rehearsal_options(kCase), "arena"};
  const MicroStepAgain again(setup.rehearsal);
  const int64_t most = predicted_memory(setup).peak_reserved;
  for (double share : {0.4, 0.6, 0.8}) {
    CAPTURE(share);
    const auto limit = static_cast<int64_t>(share * static_cast<double>(most));
    const RecomputeChoice choice = choose_recomputation(setup, limit);
    CHECK(choice.dropped > 0);
    const MadeAgain made = again.with(choice.recompute);
    CHECK(made.values == choice.dropped - never_needed(again.step(), choice.plan));
    CHECK(made.seconds == doctest::Approx(choice.plan.extra_seconds).epsilon(0.05));
  }
}

TEST_CASE("nothing is made again where everything is kept; free ways make less than segments") {
  RehearsalOptions training = rehearsal_options(kCase);
  CHECK(made_again(training).values == 0);
  CHECK(made_again(training).seconds == 0);
  const MicroStepAgain again(training);
  const int64_t calls = calls_of(again.step());
  CHECK(again.with(segmented_recomputation(1, calls)).values == 0);
  const MadeAgain free = again.with(free_recomputation()),
                  parts = again.with(segmented_recomputation(4, calls / 4 + 1));
  CHECK(free.values > 0);
  CHECK(parts.values > free.values);
  CHECK(parts.seconds > free.seconds);
  training.trainer.recompute = free_recomputation();
  CHECK(made_again(training).values == free.values);
}

TEST_CASE("values that count are those that backward reads, and that may be dropped") {
  const RecordedStep step = record_step(rehearsal_options(kCase));
  const std::vector<bool> saved = saved_values(step);
  REQUIRE(saved.size() == step.graph.values.size());
  int64_t read = 0, count = std::ranges::count(saved, true);
  for (size_t i = 0; i < saved.size(); ++i) {
    const bool is_read = std::ranges::any_of(step.graph.steps, [&](const auto& reader) {
      return std::ranges::count(reader.reads, static_cast<int32_t>(i)) > 0;
    });
    read += is_read;
    CHECK(saved[i] == (is_read && step.graph.values[i].may_drop));
  }
  CHECK(count > 0);
  CHECK(count < read);  // statistics of batch norm stay
}
