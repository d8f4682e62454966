// Random decisions for recomputation graphs, and plans compared with the rules of their simulation
// (tests/support/recompute_rules.h).
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "brim/base/random.h"
#include "brim/memory/plan/recompute.h"
#include "brim/tests/support/recompute_rules.h"

namespace brim::testing {

using memory::Fate;
using memory::RecomputeGraph;

inline std::vector<int32_t> droppable(const RecomputeGraph& graph) {
  std::vector<int32_t> values;
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].may_drop) values.push_back(static_cast<int32_t>(v));
  return values;
}

/// Some kept, some dropped.
inline std::vector<Fate> random_saving(const RecomputeGraph& graph, RandomStream& random) {
  std::vector<Fate> saving(graph.values.size(), Fate::keep);
  for (int32_t v : droppable(graph))
    saving[static_cast<size_t>(v)] = static_cast<Fate>(random.below(3));
  return saving;
}

inline void check_against_rules(const RecomputeGraph& graph, const memory::RecomputePlan& plan) {
  SlowSimulation slow(graph, plan.fates);
  CHECK(plan.peak == slow.peak());
  CHECK(plan.extra_seconds == slow.extra_seconds());
  CHECK(plan.seconds == memory::step_seconds(graph) + slow.extra_seconds());
  CHECK(plan.wait_seconds == slow.wait_seconds());
  CHECK(plan.host_peak == slow.host_bytes());
  CHECK(plan.host_peak <= graph.host_bytes);
  CHECK(plan.offloaded == std::ranges::count(plan.fates, Fate::offload));
}

}  // namespace brim::testing
