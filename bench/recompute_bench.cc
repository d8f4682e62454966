// What rebuilding saved values costs under a budget, by plan: extra seconds as a share of the
// step's, the bound on them, and how long the planning took, the median of --repeats. Graphs are
// shaped like known networks, with bytes and seconds from their layers' shapes and a roofline, or
// recorded from steps of models on the meta device. Nothing is trained: for measured times there is
// recompute_time_bench.
#include <fmt/format.h>

#include <iostream>
#include <string>
#include <vector>

#include "brim/bench/timed_training.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/program.h"
#include "brim/memory/plan/recompute.h"
#include "brim/tests/support/recompute_graphs.h"
#include "brim/train/recompute_plan.h"

namespace {

using namespace brim;
using namespace brim::bench;

struct Options {
  std::vector<std::string> networks{"resnet50",    "resnet152", "mobilenet_v2",
                                    "densenet121", "unet",      "chain10000"};
  std::vector<std::string> recorded;
  std::vector<int> shares{60, 50, 40, 35, 30, 25, 20, 15};
  int64_t batch = 16;
  testing::Roofline roofline;
  double effort = 1;
  int repeats = 1;
};

void report(const std::string& name, const memory::RecomputeGraph& graph, const Options& options) {
  memory::RecomputePlanner planner(graph, {.effort = options.effort});
  const int64_t most = planner.keep_all().peak;
  const double seconds = memory::step_seconds(graph);
  auto percent = [](double part, double whole) { return 100 * part / whole; };
  for (int share : options.shares) {
    const int64_t budget = most / 100 * share;
    memory::RecomputePlan alone, plan;
    std::vector<double> first, again;
    for (int i = 0; i < options.repeats; ++i) {
      first.push_back(seconds_of(
          [&] { alone = memory::plan_recompute(graph, budget, {.effort = options.effort}); }));
      again.push_back(seconds_of([&] { plan = planner.plan(budget); }));
    }
    fmt::print(
        "{:<14}{:>7}{:>7}%{:>10.2f}%{:>9.2f}%{:>9.2f}%{:>10.1f}%{:>9.1f}%{:>9.3f}{:>9.3f}{:>9}\n",
        name, graph.ops.size(), share, percent(alone.peak, most),
        alone.fits ? percent(alone.extra_seconds, seconds) : -1,
        percent(alone.bound_seconds, seconds), percent(alone.least_peak, most),
        percent(alone.bound_peak, most), median(first), median(again), alone.simulations);
    std::cout.flush();
    if (plan.fates != alone.fates) fmt::print("  the second plan differs from the first\n");
  }
}

void report_all(Options options) {
  if (options.networks == std::vector<std::string>{"none"}) options.networks.clear();
  fmt::print("{:<14}{:>7}{:>8}{:>11}{:>10}{:>10}{:>11}{:>10}{:>9}{:>9}{:>9}\n", "network", "ops",
             "budget", "peak", "extra", "bound", "least", "bound", "first s", "again s", "runs");
  for (const std::string& network : options.networks)
    report(network, testing::network_graph(network, options.batch, options.roofline), options);
  for (const std::string& model : options.recorded)
    report(model, record_step(rehearsal_of({.model = model, .batch = options.batch})).graph,
           options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  apps::App app("Extra time of recomputation under budgets.", "recompute_bench");
  app.add_option("--networks", options.networks, "shapes of networks, or none")
      .may_repeat(',')
      .shows_default();
  app.add_option("--recorded", options.recorded, "models, at 224 pixels").may_repeat(',');
  app.add_option("--shares", options.shares, "of the peak when all is kept, percent")
      .may_repeat(',')
      .shows_default();
  app.add_option("--batch", options.batch).shows_default();
  app.add_option("--flops", options.roofline.flops_per_second, "of networks").shows_default();
  app.add_option("--bytes", options.roofline.bytes_per_second, "of networks").shows_default();
  app.add_option("--effort", options.effort).shows_default();
  app.add_option("--repeats", options.repeats, "plans made, for the median of their seconds")
      .check(apps::whole_number(1))
      .shows_default();
  return apps::run_program(app, argc, argv, [&] { report_all(options); });
}
