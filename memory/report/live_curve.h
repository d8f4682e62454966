// The live bytes of a trace after each of its requests, by category. A buffer counts under the last
// category that it had, for all of its life.
#pragma once

#include <cstdint>
#include <vector>

#include "brim/memory/category.h"
#include "brim/memory/trace.h"

namespace brim::memory {

/// Element t: what is live once request t was served; as many as there are buffers. Their largest
/// sum is `trace.peak_live()`.
std::vector<BytesByCategory> live_curve(const Trace& trace);

/// The sums of a curve's elements.
std::vector<int64_t> totals(const std::vector<BytesByCategory>& curve);

/// The first time of the largest total; 0 where there is none.
int64_t peak_time(const std::vector<int64_t>& totals);

/// Throws `ValueError` under `tag` unless buffer i is born at i, dies after that and within the
/// trace, and ops and sections lie within it and name only its buffers.
void check_trace(const Trace& trace, const char* tag);

}  // namespace brim::memory
