// Is a plan one that can be replayed? For plans that were read, and as a second opinion on those
// that were made: it looks at the numbers alone and shares no code with `make_plan`.
#pragma once

#include <cstdint>

#include "brim/memory/plan/plan.h"

namespace brim::memory {

/// No number of bytes in a plan is larger: sums of two do not overflow.
inline constexpr int64_t kMostBytes = int64_t{1} << 60;

/// Throws `FileError` that names what is wrong: sizes and offsets that are not whole alignment
/// units, places beyond the arena, two buffers with common bytes at a time, lifetimes that end
/// before they begin, totals that are not the sum of their parts.
void check_plan(const Plan& plan);

}  // namespace brim::memory
