// The curve of bytes against time: its points are the planner's, rehearsed.
#include "brim/train/recompute_curve.h"

#include <doctest/doctest.h>

#include "brim/base/bytes.h"
#include "brim/tests/train/planned_training.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int kPoints = 7;
const TrainingCase kCases[] = {{"resnet20", 32, 8}, {"mobilenet_v2", 32, 4}};

int64_t bytes(const CurvePoint& point) { return point.memory.peak_reserved; }

}  // namespace

TEST_CASE("the points are plans of the planner, rehearsed: bytes fall, seconds rise") {
  for (const TrainingCase& c : kCases) {
    CAPTURE(c.name());
    TrainingSetup setup{rehearsal_options(c), "arena"};
    const RecordedStep step = record_step(setup.rehearsal);
    const auto plans = memory::RecomputePlanner(step.graph).front(kPoints);
    const RecomputeCurve curve = recompute_curve(setup, {.points = kPoints});
    CHECK(curve.seconds == doctest::Approx(memory::step_seconds(step.graph)));
    REQUIRE(curve.front.size() > 2);
    CHECK(curve.front.size() <= kPoints);
    CHECK(curve.front.front().name == "keep everything");
    CHECK(curve.front.front().rebuilt == 0);
    CHECK(curve.front.back().name == "least");
    for (size_t i = 0; i < curve.front.size(); ++i) {
      CAPTURE(i);
      const CurvePoint& point = curve.front[i];
      setup.rehearsal.trainer.recompute = point.recompute;
      CHECK(bytes(point) == predicted_memory(setup).peak_reserved);
      if (i == 0) continue;  // keeps everything without a plan
      CHECK(bytes(point) < bytes(curve.front[i - 1]));
      CHECK(point.extra_seconds > curve.front[i - 1].extra_seconds);
      auto plan = std::ranges::find_if(plans, [&](const memory::RecomputePlan& plan) {
        auto fates = std::make_shared<autograd::Fates>(fates_of(step, plan.fates));
        return planned_recomputation(fates).name == point.recompute.name;
      });
      REQUIRE(plan != plans.end());
      CHECK(point.bound_seconds == plan->bound_seconds);
      CHECK(point.bound_seconds <= point.extra_seconds);
      CHECK(point.extra_seconds == doctest::Approx(plan->extra_seconds).epsilon(1e-4));
    }
  }
}

TEST_CASE("other ways stand beside the plans, which are no worse") {
  const TrainingCase c{"resnet20", 32, 8};
  const TrainingSetup setup{rehearsal_options(c), "arena"};
  const RecomputeWay segments = best_segments(setup.rehearsal);
  CHECK(segments.name.starts_with("segments="));
  const RecomputeCurve curve = recompute_curve(
      setup, {.points = kPoints, .beside = {{"free", free_recomputation()}, segments}});
  REQUIRE(curve.beside.size() == 2);
  CHECK(curve.beside[0].name == "free");
  CHECK(curve.beside[1].name == segments.name);
  for (const CurvePoint& way : curve.beside) {
    CAPTURE(way.name);
    CHECK(way.rebuilt > 0);
    CHECK(way.extra_seconds > 0);
    CHECK(bytes(way) < bytes(curve.front.front()));
    // No plan with more bytes takes longer.
    for (const CurvePoint& plan : curve.front)
      if (bytes(plan) >= bytes(way)) CHECK(plan.extra_seconds <= way.extra_seconds);
  }
}

TEST_CASE("the best number of segments needs no more than others") {
  const TrainingCase c{"resnet20", 32, 8};
  TrainingSetup setup{rehearsal_options(c), "direct"};
  setup.rehearsal.evaluated = 0;
  const auto calls = std::ssize(record_step(setup.rehearsal).values);
  auto peak = [&](const RecomputeOptions& recompute) {
    setup.rehearsal.trainer.recompute = recompute;
    return predicted_memory(setup).peak_live;
  };
  const int64_t best = peak(best_segments(setup.rehearsal).recompute);
  for (int64_t count : {2, 3, 5, 8, 12})
    CHECK(best <= peak(segmented_recomputation(count, ceil_div(calls, count))));
}

TEST_CASE("a curve has two points or more") {
  const TrainingSetup setup{rehearsal_options(kCases[0]), "arena"};
  CHECK_THROWS_WITH_AS(recompute_curve(setup, {.points = 1}),
                       "recompute: expected 2 points or more, got 1", ValueError);
}
