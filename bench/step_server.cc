// Training steps on demand, for compare.py and compare_step.py; see server.h for the protocol and
// step_training.h for the steps.
#include <algorithm>

#include "brim/bench/server.h"
#include "brim/bench/step_training.h"
#include "brim/bench/timing.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/program.h"
#include "brim/train/profile_report.h"

namespace {

using namespace brim;
using namespace brim::bench;

/// The higher of two: other work on the machine hides from a measurement what it could do.
MachinePeak higher(const MachinePeak& a, const MachinePeak& b) {
  return {std::max(a.flops_per_second, b.flops_per_second),
          std::max(a.half_flops_per_second, b.half_flops_per_second),
          std::max(a.bytes_per_second, b.bytes_per_second)};
}

/// Of one more step, which is not replayed.
double bound_of(StepTraining& training, const MachinePeak& peak) {
  Profile profile({.warm_up = 0, .updates = 1});
  Profile::Scope scope(&profile, 0);
  training.update();
  scope.keep();
  return profile_report(profile, peak).launched.least_seconds;
}

void serve_steps(const StepOptions& options, int warm_up) {
  check_flags(options);
  set_threads(options);
  const MachinePeak peak = measured_peak();
  StepTraining training(options);
  for (int i = 0; i < 2; ++i) training.step();  // one is run, one recorded
  if (options.replays && !training.why_no_replay().empty())
    raise<InternalError>("step_server", "nothing is replayed: {}", training.why_no_replay());
  serve({.step = [&] { return seconds_of([&] { training.step(); }); },
         .peak = [&] { return training.peak(); },
         .bound = [&] { return bound_of(training, higher(peak, measured_peak())); }},
        std::max(warm_up - 2, 0));
}

}  // namespace

int main(int argc, char** argv) {
  apps::App app("Times training steps on demand, for compare.py.", "step_server");
  StepOptions options;
  int warm_up = 2;
  add_flags(app, options);
  app.add_option("--warmup", warm_up, "steps, at least two");
  return apps::run_program(app, argc, argv, [&] { serve_steps(options, warm_up); });
}
