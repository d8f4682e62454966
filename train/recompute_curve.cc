#include "brim/train/recompute_curve.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "brim/base/bytes.h"
#include "brim/train/made_again.h"
#include "brim/train/rehearsed_plan.h"

namespace brim {
namespace {

StepMemory rehearse_directly(const RehearsalOptions& training) {
  return measure_on_meta(memory::planner_named("direct"),
                         [&](const auto& state_is_held) { rehearse(training, state_is_held); });
}

class Drawing {
 public:
  explicit Drawing(const TrainingSetup& setup) : setup_(setup), again_(setup.rehearsal) {}

  RecomputeCurve run(const CurveOptions& options) {
    RecomputeCurve curve{.seconds = memory::step_seconds(again_.step().graph)};
    memory::RecomputePlanner planner(again_.step().graph);
    for (const memory::RecomputePlan& plan : planner.front(options.points)) {
      CurvePoint next = curve.front.empty() ? rehearsed({"keep everything", {}}) : planned(plan);
      add(curve.front, std::move(next));
    }
    if (curve.front.size() > 1) curve.front.back().name = "least";
    for (const RecomputeWay& way : options.beside) curve.beside.push_back(rehearsed(way));
    return curve;
  }

 private:
  CurvePoint rehearsed(const RecomputeWay& way) {
    TrainingSetup setup = setup_;
    setup.rehearsal.trainer.recompute = way.recompute;
    const MadeAgain made = again_.with(way.recompute);
    return {.name = way.name,
            .recompute = way.recompute,
            .memory = predicted_memory(setup),
            .extra_seconds = made.seconds,
            .rebuilt = made.values};
  }

  CurvePoint planned(const memory::RecomputePlan& plan) {
    auto fates = std::make_shared<autograd::Fates>(fates_of(again_.step(), plan.fates));
    CurvePoint point = rehearsed({"", planned_recomputation(std::move(fates), plan.wait_seconds)});
    point.bound_seconds = plan.bound_seconds;
    return point;
  }

  /// Packed, plans may lie in another order than the planner had them in.
  static void add(std::vector<CurvePoint>& front, CurvePoint next) {
    auto bytes = [](const CurvePoint& point) { return point.memory.peak_reserved; };
    while (front.size() > 1 && front.back().extra_seconds >= next.extra_seconds &&
           bytes(front.back()) >= bytes(next))
      front.pop_back();
    if (front.empty() ||
        (bytes(next) < bytes(front.back()) && next.extra_seconds > front.back().extra_seconds))
      front.push_back(std::move(next));
  }

  TrainingSetup setup_;
  MicroStepAgain again_;
};

}  // namespace

RecomputeCurve recompute_curve(const TrainingSetup& setup, const CurveOptions& options) {
  return Drawing(setup).run(options);
}

RecomputeWay best_segments(const RehearsalOptions& training) {
  const auto calls = static_cast<int64_t>(record_step(training).values.size());
  const auto most = static_cast<int64_t>(2 * std::sqrt(static_cast<double>(calls)));
  RehearsalOptions one = training.one_update();
  RecomputeWay best;
  int64_t least = 0;
  for (int64_t count = 2; count <= std::max<int64_t>(most, 2); ++count) {
    one.trainer.recompute = segmented_recomputation(count, ceil_div(calls, count));
    const int64_t peak = rehearse_directly(one).peak_live;
    if (!best.name.empty() && peak >= least) continue;
    least = peak;
    best = {fmt::format("segments={}", count), one.trainer.recompute};
  }
  return best;
}

}  // namespace brim
