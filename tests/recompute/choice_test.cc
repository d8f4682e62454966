// Recomputation that is planned for a budget under planners other than the arena, for float64, and
// for budgets that no training has.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "brim/nn/layers.h"
#include "brim/ops/ops.h"
#include "brim/tests/recompute/modes.h"
#include "brim/tests/recompute/observed_training.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/instrumented.h"
#include "brim/train/recompute_plan.h"

using namespace brim;
using namespace brim::testing;

namespace {

/// Of enough bytes that the caching planner, which takes them by the 2 MiB, can tell ways apart.
ZooTraining small_training(Dtype dtype = Dtype::float32) {
  return {.name = "resnet20", .size = 32, .batch = 8, .dtype = dtype, .steps = 2};
}

}  // namespace

TEST_CASE("under caching and direct planners, and in float64, a budget is a limit too" *
          doctest::skip(is_instrumented())) {
  for (Dtype dtype : {Dtype::float32, Dtype::float64})
    for (const std::string planner : {"caching", "direct"}) {
      CAPTURE(to_string(dtype));
      CAPTURE(planner);
      const ZooTraining training = small_training(dtype);
      const ObservedTraining kept = observe(training, {});
      const TrainingSetup setup = setup_of(training, planner);
      const ByteRange range{.least = choose_recomputation(setup, 0).memory.peak_reserved,
                            .most = predicted_memory(setup).peak_reserved};
      REQUIRE(range.least < range.most);
      for (double share : {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}) {
        CAPTURE(share);
        const int64_t limit = range.at(share);
        const RecomputeChoice choice = choose_recomputation(setup, limit);
        REQUIRE(choice.fits);
        CHECK(choice.memory.peak_reserved <= limit);
        const ObservedTraining run = observe(training, {.recompute = choice.recompute,
                                                        .planner = memory::planner_named(planner),
                                                        .cap = limit});
        CHECK(run.stats.peak_reserved == choice.memory.peak_reserved);
        CHECK(run.stats.peak_live == choice.memory.peak_live);
        CHECK(difference(kept, run) == "");
      }
    }
}

TEST_CASE("a limit of nothing is refused with the least, one below nothing is none") {
  const TrainingSetup setup = setup_of(small_training());
  const RecomputeChoice least = choose_recomputation(setup, 0);
  CHECK_FALSE(least.fits);
  CHECK(least.dropped > 0);
  CHECK(choose_recomputation(setup, least.memory.peak_reserved).fits);
  CHECK(error_text<ValueError>([&] { choose_recomputation(setup, -1); }) ==
        "recompute: expected a budget from 0, got -1");
}

TEST_CASE("what a training asks for is left as it is where it fits") {
  TrainingSetup setup = setup_of(small_training());
  setup.rehearsal.trainer.recompute = free_recomputation();
  const int64_t bytes = predicted_memory(setup).peak_reserved;
  const RecomputeChoice free = choose_recomputation(setup, bytes);
  CHECK(free.fits);
  CHECK(free.recompute.name == "free");
  CHECK(free.memory.peak_reserved == bytes);
  const RecomputeChoice planned = choose_recomputation(setup, bytes - 1);
  CHECK(planned.fits);
  CHECK(planned.recompute.name.starts_with("planned "));
}

TEST_CASE("no plan that fits a limit takes less than the bound that is said of the limit") {
  const TrainingSetup setup = setup_of(small_training());
  const ByteRange range = byte_range(small_training());
  double quickest = std::numeric_limits<double>::infinity();
  for (double share : {0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}) {
    CAPTURE(share);
    const RecomputeChoice choice = choose_recomputation(setup, range.at(share));
    REQUIRE(choice.fits);
    quickest = std::min(quickest, choice.plan.extra_seconds);
    CHECK(choice.plan.bound_seconds > 0);
    CHECK(choice.plan.bound_seconds <= quickest);
  }
}

TEST_CASE("of a training of a few bytes the least is found too") {
  struct Scale final : nn::Module {
    Scale() { register_parameter("by", by, {2}, nn::init::constant(2)); }
    Tensor forward(Tensor x) override { return exp(exp(mul(std::move(x), by))); }
    Tensor by;
  };
  TrainingSetup setup = setup_of(small_training());
  setup.rehearsal.make_model = [] { return std::make_shared<Scale>(); };
  setup.rehearsal.loss = [](nn::Module& model, int64_t images) {
    return mean(model(zeros({images, 2}, {.device = Device::meta()})));
  };
  setup.rehearsal.batch = 2;
  const RecomputeChoice choice = choose_recomputation(setup, 1);
  CHECK_FALSE(choice.fits);
  CHECK(choice.memory.peak_reserved > 0);
  CHECK(choice.memory.peak_reserved < 4096);
}

TEST_CASE("the same question has the same answer, another budget another one") {
  const TrainingSetup setup = setup_of(small_training());
  const ByteRange range = byte_range(small_training());
  const RecomputeChoice a = choose_recomputation(setup, range.at(0.3)),
                        b = choose_recomputation(setup, range.at(0.3)),
                        other = choose_recomputation(setup, range.at(0.9));
  CHECK(a.recompute.name == b.recompute.name);
  CHECK(a.plan.fates == b.plan.fates);
  CHECK(a.memory.peak_reserved == b.memory.peak_reserved);
  CHECK(a.recompute.name != other.recompute.name);
}
