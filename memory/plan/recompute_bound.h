// What no plan can do better than: a bound on the seconds of replays for a budget, and one on the
// budget. The planner's own; programs call recompute.h.
//
// At any moment, of the values that later steps read, those that are not there must be rebuilt
// later, so the ops that make them run once more; where all of those steps do with rows, in their
// seconds, and where all do with what the values are made from, for nothing. What the moment itself
// reads or makes, what later forward ops read and what may not be dropped is there. So the bytes
// above the budget at that moment cost at least what the cheapest ops by seconds per byte cost, the
// last of them in part (a knapsack, relaxed). The best of many moments is taken. What the replays
// need in turn, and that moments differ in what they drop, is left out.
//
// With a host, x of the missing bytes may lie there. All x were copied within forward and come back
// within backward, and compute waits for what its own seconds do not hide; the ops make the rest
// again. The best x counts, of those that the host has room for. A copy hides behind all of forward
// here, and in truth only behind what runs after its value was made, so this bound is weaker.
#pragma once

#include <cstdint>

#include "brim/memory/plan/recompute_flat.h"

namespace brim::memory::recompute {

/// Seconds; infinite where no plan fits. `budget` is without the fixed bytes.
double bound_seconds(const FlatGraph& graph, int64_t budget);

/// No plan has a lower peak; without the fixed bytes.
int64_t bound_peak(const FlatGraph& graph);

}  // namespace brim::memory::recompute
