// The best recomputation of a small graph, found by trying everything: what plans are judged by.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "brim/memory/plan/recompute_graph.h"

namespace brim::testing {

/// Peak and extra seconds of all plans, three for each value that may be dropped, multiplied. The
/// first is that which keeps everything.
std::vector<std::pair<int64_t, double>> all_recompute_plans(const memory::RecomputeGraph& graph);

/// The fewest extra seconds of those that fit; infinite where none does.
double best_seconds(const std::vector<std::pair<int64_t, double>>& plans, int64_t budget);

}  // namespace brim::testing
