// What rebuilding saved values costs under a budget, on graphs shaped like known networks: extra
// seconds as a share of the step's, the bound on them, and how long the planning took. Nothing is
// trained; bytes and seconds come from the layers' shapes and a roofline.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>

#include "brim/memory/plan/recompute.h"
#include "brim/tests/support/recompute_graphs.h"

namespace {

using namespace brim;
using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> networks{"resnet50",    "resnet152", "mobilenet_v2",
                                    "densenet121", "unet",      "chain10000"};
  std::vector<int> shares{60, 50, 40, 35, 30, 25, 20, 15};
  int64_t batch = 16;
  testing::Roofline roofline;
  double effort = 1;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void report(const std::string& network, const Options& options) {
  memory::RecomputeGraph graph = testing::network_graph(network, options.batch, options.roofline);
  memory::RecomputePlanner planner(graph, {.effort = options.effort});
  const int64_t most = planner.keep_all().peak;
  const double seconds = memory::step_seconds(graph);
  auto percent = [](double part, double whole) { return 100 * part / whole; };
  for (int share : options.shares) {
    const int64_t budget = most / 100 * share;
    auto start = Clock::now();
    memory::RecomputePlan alone = memory::plan_recompute(graph, budget, {.effort = options.effort});
    const double first = seconds_since(start);
    start = Clock::now();
    memory::RecomputePlan plan = planner.plan(budget);
    const double again = seconds_since(start);
    fmt::print(
        "{:<14}{:>7}{:>7}%{:>10.2f}%{:>9.2f}%{:>9.2f}%{:>10.1f}%{:>9.1f}%{:>9.3f}{:>9.3f}{:>9}\n",
        network, graph.ops.size(), share, percent(alone.peak, most),
        alone.fits ? percent(alone.extra_seconds, seconds) : -1,
        percent(alone.bound_seconds, seconds), percent(alone.least_peak, most),
        percent(alone.bound_peak, most), first, again, alone.simulations);
    std::cout.flush();
    if (plan.saving != alone.saving) fmt::print("  the second plan differs from the first\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Extra time of recomputation under budgets.", "recompute_bench");
  app.add_option("--networks", options.networks)->delimiter(',')->capture_default_str();
  app.add_option("--shares", options.shares, "of the peak when all is kept, percent")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--batch", options.batch)->capture_default_str();
  app.add_option("--flops", options.roofline.flops_per_second)->capture_default_str();
  app.add_option("--bytes", options.roofline.bytes_per_second)->capture_default_str();
  app.add_option("--effort", options.effort)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  fmt::print("{:<14}{:>7}{:>8}{:>11}{:>10}{:>10}{:>11}{:>10}{:>9}{:>9}{:>9}\n", "network", "ops",
             "budget", "peak", "extra", "bound", "least", "bound", "first s", "again s", "runs");
  for (const std::string& network : options.networks) report(network, options);
}
