// Plans of recomputation against the best of all plans, on small random graphs where every plan can
// be tried: how far above the optimum their seconds are, as a share of the step's, on average, and
// a list of the cases where that is more than --list percent.
//
//   recompute_optimum_bench [--graphs N] [--values N] [--effort X]
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "brim/apps/support/app.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/program.h"
#include "brim/memory/plan/recompute.h"
#include "brim/tests/support/recompute_graphs.h"
#include "brim/tests/support/recompute_rules.h"

namespace {

using namespace brim;

struct Options {
  uint64_t graphs = 40;  ///< of each family
  int values = 11;       ///< at most, that may be dropped
  double effort = 1, list = 3;
};

/// Of one family, or of all.
struct Gaps {
  std::vector<double> percent;
  int64_t refused = 0;  ///< though a plan fits

  int64_t count_up_to(double limit) const {
    return std::ranges::count_if(percent, [=](double gap) { return gap <= limit; });
  }
  void print(const std::string& name) const {
    double sum = 0, worst = 0;
    for (double gap : percent) sum += gap, worst = std::max(worst, gap);
    const auto count = std::ssize(percent);
    fmt::print("{:<10}{:>8}{:>9}{:>13}{:>9.3f}{:>9.2f}{:>9}\n", name, count, count_up_to(1e-10),
               count_up_to(3), count > 0 ? sum / static_cast<double>(count) : 0, worst, refused);
  }
};

/// Budgets from the least bytes that any plan needs to those of everything kept.
void add_graph(const std::string& family, uint64_t seed, const Options& options, Gaps& gaps) {
  const int values = 4 + static_cast<int>(seed % static_cast<uint64_t>(options.values - 3));
  const memory::RecomputeGraph graph = testing::random_recompute_graph(family, values, seed);
  const auto plans = testing::all_plans(graph);
  const int64_t most = plans[0].first, least = std::ranges::min(plans).first;
  memory::RecomputePlanner planner(graph, {.effort = options.effort});
  constexpr int kBudgets = 8;
  for (int i = 0; i < kBudgets; ++i) {
    const int64_t budget = least + (most - least) * i / kBudgets;
    const memory::RecomputePlan plan = planner.plan(budget);
    if (!plan.fits) {
      ++gaps.refused;
      fmt::print("refused: {} {}, budget {} of {} to {} bytes\n", family, seed, budget, least,
                 most);
      continue;
    }
    const double best = testing::best_seconds(plans, budget), step = memory::step_seconds(graph);
    gaps.percent.push_back(100 * (plan.extra_seconds - best) / step);
    if (gaps.percent.back() > options.list)
      fmt::print(
          "{:.2f}% above the best: {} {}, budget {} of {} to {} bytes, {:.2f}% for {:.2f}%\n",
          gaps.percent.back(), family, seed, budget, least, most, 100 * plan.extra_seconds / step,
          100 * best / step);
  }
}

void compare(const Options& options) {
  Gaps all;
  std::vector<std::pair<std::string, Gaps>> families;
  for (const std::string& family : testing::recompute_families()) {
    Gaps& gaps = families.emplace_back(family, Gaps{}).second;
    for (uint64_t seed = 0; seed < options.graphs; ++seed) add_graph(family, seed, options, gaps);
    all.percent.insert(all.percent.end(), gaps.percent.begin(), gaps.percent.end());
    all.refused += gaps.refused;
  }
  fmt::print("{:<10}{:>8}{:>9}{:>13}{:>9}{:>9}{:>9}\n", "", "budgets", "optimal", "within 3%",
             "mean %", "worst %", "refused");
  for (const auto& [family, gaps] : families) gaps.print(family);
  all.print("all");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  apps::App app("Plans of recomputation against the optimum of small graphs.",
                    "recompute_optimum_bench");
  app.add_option("--graphs", options.graphs, "of each family").shows_default();
  app.add_option("--values", options.values, "at most, that may be dropped")
      .check(apps::whole_number(4, 13))
      .shows_default();
  app.add_option("--effort", options.effort).shows_default();
  app.add_option("--list", options.list, "cases above so many percent of a step are listed")
      .shows_default();
  return apps::run_program(app, argc, argv, [&] { compare(options); });
}
