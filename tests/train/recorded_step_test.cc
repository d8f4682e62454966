// A recorded step against the training that it stands for: what a plan on its graph is said to hold
// and to take is about what a rehearsal of the plan holds and takes, also where ops write over
// their inputs and where what was dropped is read by rows.
#include <doctest/doctest.h>

#include <cmath>

#include "brim/tests/train/planned_training.h"
#include "brim/train/predicted_time.h"
#include "brim/train/recompute_plan.h"

using namespace brim;
using namespace brim::testing;

namespace {

/// Counts ops that backward runs again over an input of theirs.
struct WrittenOver final : autograd::OpObserver {
  void ran(const autograd::OpEvent& event) override {
    if (event.phase == autograd::Phase::recompute && event.overwritten >= 0) ++count;
  }
  int64_t count = 0;
};

int64_t written_over_again(const RehearsalOptions& training) {
  WrittenOver written_over;
  predicted_memory({training, "direct"});
  return written_over.count;
}

}  // namespace

TEST_CASE("a rehearsal holds what its plan does and takes as long, but for little") {
  // A residual network writes over shortcuts; one without batch norm, over convolutions; a dense
  // one reads what it made long ago; in one of cheap convolutions most of the time is that of rows.
  for (const std::string model : {"resnet50", "vgg16", "densenet121", "mobilenet_v2"}) {
    CAPTURE(model);
    RehearsalOptions training = rehearsal_options({model, 224, 16});
    training.last_update = training.evaluated = 0;
    const RecordedStep step = record_step(training);
    const double kept_seconds = predicted_seconds(training);
    memory::RecomputePlanner planner(step.graph, {.effort = 0.3});
    const int64_t most = planner.keep_all().peak;
    int fitting = 0;
    for (int64_t share : {100, 95, 90, 80, 60, 45}) {
      CAPTURE(share);
      const memory::RecomputePlan plan = planner.plan(most / 100 * share);
      if (!plan.fits) continue;
      ++fitting;
      training.trainer.recompute =
          planned_recomputation(std::make_shared<autograd::Fates>(fates_of(step, plan.fates)));
      const auto live = static_cast<double>(predicted_memory({training, "direct"}).peak_live);
      CHECK(live <= 1.005 * static_cast<double>(plan.peak));
      CHECK(live >= 0.985 * static_cast<double>(plan.peak));
      const double extra = predicted_seconds(training) - kept_seconds;
      CHECK(std::abs(extra - plan.extra_seconds) <= 0.004 * kept_seconds);
    }
    CHECK(fitting >= 3);
    CHECK(planner.least().peak < most);
  }
}

TEST_CASE("what wrote over a shortcut does so when it runs again, where the training may") {
  RehearsalOptions training = rehearsal_options({"resnet50", 64, 2});
  const RecordedStep step = record_step(training);
  memory::RecomputePlanner planner(step.graph, {.effort = 0.3});
  training.trainer.recompute = planned_recomputation(
      std::make_shared<autograd::Fates>(fates_of(step, planner.least().fates)));
  CHECK(written_over_again(training) > 0);
  training.trainer.in_place = false;
  CHECK(written_over_again(training) == 0);
}
