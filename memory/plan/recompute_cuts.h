// Where to cut a chain of forward ops into segments. A value crosses a position when an op at or
// before it makes the value and something after it reads that: a later op, its replay, or a
// backward step that comes before those of the earlier ops. What crosses a cut is kept, so that a
// segment is rebuilt from what crosses its beginning. The planner's own; programs call recompute.h.
//
// What crosses q and not p < q is made between them, so kept bytes of segments add up, also where
// values skip over many ops.
#pragma once

#include <cstdint>
#include <vector>

#include "brim/memory/plan/recompute_flat.h"

namespace brim::memory::recompute {

/// By op: the bytes that cross the position behind it.
std::vector<int64_t> crossing_bytes(const FlatGraph& graph);

/// Positions, as the number of ops before them, from 0 to `graph.ops()`, both included: up to
/// `most` - 1 between those, at local minima of what crosses.
std::vector<int32_t> choose_cuts(const FlatGraph& graph, int32_t most);

}  // namespace brim::memory::recompute
