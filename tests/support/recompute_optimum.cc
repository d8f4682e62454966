#include "brim/tests/support/recompute_optimum.h"

#include <algorithm>
#include <limits>

#include "brim/memory/plan/recompute_simulator.h"

namespace brim::testing {

using namespace memory;

std::vector<std::pair<int64_t, double>> all_recompute_plans(const RecomputeGraph& graph) {
  recompute::FlatGraph flat(graph);
  recompute::Simulator simulator(flat);
  std::vector<Fate> saving = flat.all_kept();
  std::vector<size_t> values;
  for (size_t v = 0; v < saving.size(); ++v)
    if (flat.may_drop[v]) values.push_back(v);
  std::vector<std::pair<int64_t, double>> plans;
  for (size_t i = 0; i < values.size();) {
    if (i == 0) {
      recompute::Cost cost = simulator.run(saving);
      plans.emplace_back(flat.fixed + cost.peak, cost.seconds);
    }
    // The next number to the base of three.
    Fate& digit = saving[values[i]];
    const bool carry = digit == Fate::remake;
    digit = carry ? Fate::keep : static_cast<Fate>(static_cast<int>(digit) + 1);
    i = carry ? i + 1 : 0;
  }
  return plans;
}

double best_seconds(const std::vector<std::pair<int64_t, double>>& plans, int64_t budget) {
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [peak, seconds] : plans)
    if (peak <= budget) best = std::min(best, seconds);
  return best;
}

}  // namespace brim::testing
