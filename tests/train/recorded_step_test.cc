// A recorded step against the training that it stands for: what a plan on its graph is said to hold
// is about what a rehearsal of the plan holds, also where ops write over their inputs.
#include <doctest/doctest.h>

#include "brim/tests/train/planned_training.h"
#include "brim/train/recompute_plan.h"

using namespace brim;
using namespace brim::testing;

TEST_CASE("a rehearsal holds no more than its plan, but for little") {
  // A residual network writes over shortcuts; one without batch norm, over convolutions; a dense
  // one reads what it made long ago.
  for (const std::string model : {"resnet50", "vgg16", "densenet121"}) {
    CAPTURE(model);
    RehearsalOptions training = rehearsal_options({model, 224, 16});
    training.last_update = training.evaluated = 0;
    const RecordedStep step = record_step(training);
    memory::RecomputePlanner planner(step.graph, {.effort = 0.3});
    const int64_t most = planner.keep_all().peak;
    int fitting = 0;
    for (int64_t share : {100, 95, 90, 80, 60, 45}) {
      CAPTURE(share);
      const memory::RecomputePlan plan = planner.plan(most / 100 * share);
      if (!plan.fits) continue;
      ++fitting;
      training.trainer.recompute =
          planned_recomputation(std::make_shared<autograd::Fates>(fates_of(step, plan.saving)));
      const auto live = static_cast<double>(predicted_memory({training, "direct"}).peak_live);
      CHECK(live <= 1.01 * static_cast<double>(plan.peak));
    }
    CHECK(fitting >= 3);
    CHECK(planner.least().peak < most);
  }
}
