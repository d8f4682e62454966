// A device that loses bytes and gets them back under trainings with more than a plain network has:
// batch norm with averages and evaluations, frozen layers, tensors that are the user's.
#include <cmath>

#include "brim/tests/train/losing_memory.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int kSchedules = 12;  // of each kind

/// A case, and the share of the whole batch's bytes that some micro-batch fits.
struct Kind {
  LosingCase c;
  uint64_t seed = 0;  // of its schedules
  double least = 0.55;
};

/// Calls `body` with an undisturbed run and one of each schedule.
template <class Body>
void for_each_schedule(const Kind& kind, const Body& body) {
  const LosingCase& c = kind.c;
  const Outcome calm = train(c, {});
  REQUIRE(calm.was_whole());
  REQUIRE(calm.counts.replans == 1);  // when it began
  RandomStream random(RandomKey{kind.seed});
  for (int i = 0; i < kSchedules; ++i) {
    Schedule schedule = random_schedule(kPlanners[i % 3], random, kind.least);
    if (c.evaluated && i % 4 == 0) schedule.lost_after = kSteps / 2;  // in the evaluation
    schedule.back_after = std::max(schedule.back_after, schedule.lost_after + 1);
    CAPTURE(schedule.planner);
    CAPTURE(schedule.lost_after);
    CAPTURE(schedule.forwards);
    CAPTURE(schedule.back_after);
    CAPTURE(schedule.left);
    const Outcome run = train(c, schedule);
    CHECK(run.counts.violations == 0);
    CHECK(run.losses.size() == kSteps);
    body(calm, run);
  }
}

/// How many values are the same, bit for bit, before the first that is not.
size_t same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

TEST_CASE("batch norm, averages and evaluations: bits change with the micro-batch, and only then") {
  const LosingCase c{.batch_norm = true, .evaluated = true, .averaged = true};
  int64_t whole = 0, smaller = 0, in_evaluation = 0;
  for_each_schedule({c, 21}, [&](const Outcome& calm, const Outcome& run) {
    CHECK(run.evaluations.size() == 2 * 2);
    CHECK(run.averaged_updates == kSteps);
    CHECK(std::ranges::all_of(run.values, [](double v) { return std::isfinite(v); }));
    const auto first =
        std::ranges::find_if(run.micro_batches, [](int64_t m) { return m < kImages; });
    CHECK(same_bits(run.losses, calm.losses) >=
          static_cast<size_t>(first - run.micro_batches.begin()));
    in_evaluation += run.lost_in_evaluation;
    (run.was_whole() ? whole : smaller) += 1;
    if (!run.was_whole()) return;
    CHECK(run.losses == calm.losses);
    CHECK(run.evaluations == calm.evaluations);
    CHECK(run.values == calm.values);
  });
  CHECK(whole > 0);
  CHECK(smaller > 3);
  CHECK(in_evaluation > 0);
}

TEST_CASE("frozen layers: losses and weights stay the same, and what is frozen keeps its bits") {
  int64_t smaller = 0;
  for (const char* layer : {"conv1", "conv2"}) {
    CAPTURE(layer);
    const LosingCase frozen{.averaged = true, .frozen = {layer}};
    const std::vector<double> before = LosingTraining(frozen).frozen_values();
    REQUIRE(before.size() > 200);
    // Without gradients of conv1, scratch is most of what is held.
    for_each_schedule({frozen, 22, 0.75}, [&](const Outcome& calm, const Outcome& run) {
      CHECK(largest_difference(run.losses, calm.losses) < 1e-9);
      CHECK(largest_difference(run.values, calm.values) < 1e-9);
      CHECK(run.frozen == before);
      smaller += !run.was_whole();
    });
  }
  CHECK(smaller > 3);
}

TEST_CASE("what the user holds keeps its bits, and its place beside the training") {
  int64_t smaller = 0, moved = 0;
  for_each_schedule({{.held = 40'000}, 23}, [&](const Outcome& calm, const Outcome& run) {
    CHECK(largest_difference(run.losses, calm.losses) < 1e-9);
    smaller += !run.was_whole();
    moved += run.held_moved;
  });
  CHECK(smaller > 3);
  CHECK(moved > 0);
}
