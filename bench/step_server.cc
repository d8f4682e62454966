// Runs training steps on demand, so that a driver can alternate it with other programs: prints
// `ready` when warm, then answers each line `step N` with one line of N space-separated seconds,
// `peak` with the bytes that were live at the most, and `bound` with the seconds that a step takes
// at this machine's peak (train/machine_peak.h).
#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <string>

#include "brim/bench/step_training.h"
#include "brim/train/profile_report.h"

namespace {

using namespace brim;
using namespace brim::bench;

double timed_step(StepTraining& training) {
  auto start = std::chrono::steady_clock::now();
  training.step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Of one more step, which is not replayed.
double bound_of(StepTraining& training, const MachinePeak& peak) {
  Profile profile({.warm_up = 0, .updates = 1});
  Profile::Scope scope(&profile, 0);
  training.update();
  scope.keep();
  return profile_report(profile, peak).launched.least_seconds;
}

void serve(const StepOptions& options, int warm_up) {
  set_threads(options);
  const MachinePeak peak = measured_peak();
  StepTraining training(options);
  for (int i = 0; i < std::max(warm_up, 2); ++i) timed_step(training);  // one is run, one recorded
  if (options.replays && !training.why_no_replay().empty())
    raise<InternalError>("step_server", "nothing is replayed: {}", training.why_no_replay());
  std::cout << "ready" << std::endl;
  std::string command;
  for (int count = 0; std::cin >> command;) {
    if (command == "peak") {
      std::cout << training.peak() << std::endl;
      continue;
    }
    if (command == "bound") {
      std::cout << bound_of(training, peak) << std::endl;
      continue;
    }
    std::cin >> count;
    for (int i = 0; i < count; ++i) std::cout << (i > 0 ? " " : "") << timed_step(training);
    std::cout << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times training steps on demand, for compare_step.py.");
  StepOptions options;
  int warm_up = 2;
  add_flags(app, options);
  app.add_option("--warmup", warm_up);
  CLI11_PARSE(app, argc, argv);
  try {
    serve(options, warm_up);
  } catch (const std::exception& error) {
    std::cerr << "step_server: " << error.what() << std::endl;
    return 1;
  }
}
