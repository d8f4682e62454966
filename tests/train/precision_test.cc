// Trainings in mixed precision hold what was predicted, to the byte, under every planner, in one
// part or several, with updates that are skipped in the run (but what a caching planner reserves
// where one is lost in one of several parts); and whatever is kept for backward, the bits are the
// same.
#include <doctest/doctest.h>

#include <string_view>

#include "brim/memory/arena_planner.h"
#include "brim/ops/autocast.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/train/train_with.h"
#include "brim/train/recompute_plan.h"

using namespace brim;
using namespace brim::testing;

namespace {

/// A scale at which the first updates overflow float16, but not float32.
constexpr double kOverflows = 0x1p30;

struct Precision {
  Dtype dtype;
  double scale = 0;         ///< to begin with; 0 for no scaler
  int64_t micro_batch = 0;  ///< 0: an update in one part
};

const Precision kPrecisions[] = {{Dtype::float32, 0, 3},         {Dtype::bfloat16},
                                 {Dtype::bfloat16, 0, 3},        {Dtype::float16, 1024},
                                 {Dtype::float16, 1024, 3},      {Dtype::float16, kOverflows},
                                 {Dtype::float16, kOverflows, 3}};

const TrainingCase kCases[] = {{"resnet20", 32, 8}, {"mobilenet_v2", 64, 8}};

std::string name_of(const Precision& precision) {
  return fmt::format("{}, scale {}, parts of {}", to_string(precision.dtype), precision.scale,
                     precision.micro_batch);
}

RehearsalOptions rehearsal_for(const TrainingCase& c, const Precision& precision,
                               const RecomputeOptions& recompute) {
  RehearsalOptions options = rehearsal_options(c);
  options.trainer.precision = precision.dtype;
  options.trainer.recompute = recompute;
  if (precision.micro_batch == 0) return options;
  options.batch = precision.micro_batch;
  options.effective_batch = options.evaluation_batch = c.batch;
  return options;
}

Trained train_for(const TrainingCase& c, const Precision& precision,
                  const RecomputeOptions& recompute, const memory::MakePlanner& planner) {
  TrainerOptions options = trainer_options(c);
  options.precision = precision.dtype;
  options.recompute = recompute;
  options.micro_batch = precision.micro_batch;
  // Two updates from the one that overflows to one that does not.
  optim::LossScaler scaler({.initial = std::max(precision.scale, 1.0), .backoff = 0x1p-6});
  if (precision.scale > 0) options.scaler = &scaler;
  return train_as(c, options, planner);
}

}  // namespace

TEST_CASE("mixed precision holds what was predicted, and recomputation keeps its bits") {
  for (const TrainingCase& c : kCases)
    for (const Precision& precision : kPrecisions) {
      // The larger model takes bfloat16, and updates that are lost in parts.
      const bool is_last = &precision == &kPrecisions[6];
      if (is_instrumented() && !is_last) continue;
      if (&c != &kCases[0] && !is_last && precision.dtype != Dtype::bfloat16) continue;
      CAPTURE(c.name());
      CAPTURE(name_of(precision));
      const Trained kept = train_for(c, precision, {}, memory::planner_named("direct"));
      if (precision.scale == kOverflows) CHECK(!kept.skipped.empty());
      CHECK(kept.skipped.size() < kept.losses.size());
      // An update that is lost in one of its parts asks for other things than one of a rehearsal:
      // that part twice, none after it, nothing for the update itself. What a caching planner
      // reserves depends on all that came before, and is less then in one of the cases.
      const bool loses_parts = precision.scale == kOverflows && precision.micro_batch > 0;
      int64_t most = 0;
      auto check_same = [&](const RecomputeOptions& recompute, const char* planner) {
        CAPTURE(recompute.name);
        CAPTURE(planner);
        const RehearsalOptions rehearsal = rehearsal_for(c, precision, recompute);
        const RehearsedPlan plan =
            plan_under(planner, [&](const auto& held) { rehearse(rehearsal, held); });
        const Trained with = train_for(
            c, precision, recompute,
            plan.plan ? memory::arena_planner(plan.plan) : memory::planner_named(planner));
        CHECK(with.losses.size() == kept.losses.size());
        CHECK(with.state == kept.state);
        CHECK(with.skipped.size() == kept.skipped.size());
        if (loses_parts && planner == std::string_view("caching"))
          CHECK(with.stats.peak_reserved <= plan.predicted.peak_reserved);
        else
          CHECK(with.stats.peak_reserved == plan.predicted.peak_reserved);
        CHECK(with.stats.peak_live == plan.predicted.peak_live);
        CHECK(with.stats.mismatches == 0);
        return plan.predicted.peak_reserved;
      };
      most = check_same({}, "arena");
      CHECK(check_same(free_recomputation(), "arena") < most);
      const RehearsalOptions free = rehearsal_for(c, precision, free_recomputation());
      const int64_t calls = std::ssize(record_step(free).values);
      CHECK(check_same(segmented_recomputation(4, calls / 4 + 1), "caching") > 0);
      const RecomputeChoice planned = choose_recomputation({free, "arena"}, most * 3 / 5);
      CHECK(check_same(planned.recompute, "arena") <= most);
    }
}

TEST_CASE("halves take fewer bytes than float32") {
  struct Share {
    TrainingCase of;
    double most;
  };
  // In float32 most norms of MobileNet V2 are applied on the way into the next convolution, and
  // what they give is not there.
  for (const auto& [c, most] :
       {Share{{"resnet20", 32, 64}, 0.7}, Share{{"mobilenet_v2", 64, 16}, 0.75}}) {
    auto peak = [&, of = c](Dtype dtype) {
      const RehearsalOptions options = rehearsal_for(of, {dtype}, free_recomputation());
      return plan_under("arena", [&](const auto& held) { rehearse(options, held); })
          .predicted.peak_reserved;
    };
    const auto wide = static_cast<double>(peak(Dtype::float32));
    const int64_t bfloat16 = peak(Dtype::bfloat16), float16 = peak(Dtype::float16);
    CHECK(static_cast<double>(bfloat16) < most * wide);
    CHECK(static_cast<double>(float16) < most * wide);
    // Where the processor multiplies bfloat16, kernels take other scratch for it.
    if (!has_native_products(Dtype::bfloat16, Device::cpu())) CHECK(float16 == bfloat16);
  }
}
