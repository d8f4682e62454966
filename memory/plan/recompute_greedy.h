// Drops values one by one, by what a simulation of the whole step says of each, until it fits. It
// wins over recompute_chain.h where that is coarse, and loses where many values must go at once.
// The planner's own; programs call recompute.h.
#pragma once

#include <cstdint>
#include <vector>

#include "brim/memory/plan/recompute_simulator.h"

namespace brim::memory::recompute {

/// From what is decided in `saving`. Ends above the budget where it finds no further step, or after
/// about `work` moments of simulations. `budget` is without the fixed bytes.
std::vector<Fate> drop_until_it_fits(const FlatGraph& graph, Simulator& simulator,
                                     std::vector<Fate> saving, int64_t budget, int64_t work);

}  // namespace brim::memory::recompute
