// Values that were dropped and made again for backward, or that waited in the host: which buffer of
// a trace is another life of which. For pages: it is found by what calls look like, since a trace
// does not know values. What is dropped or moved is decided elsewhere (memory/plan/recompute.h).
#pragma once

#include <cstdint>
#include <vector>

#include "brim/memory/trace.h"

namespace brim::memory {

/// Of each activation that holds a value made again (phase recompute) or fetched from the host
/// (memory/fetch_name.h): the buffer that held it in forward, of the same call of the same section.
/// -1 for others, and for what was made again of a value that was written over in place: what its
/// buffer held when it went was another value. Calls that look alike, as those of one line in a
/// loop, are taken last first, as backward does.
std::vector<int64_t> first_lives(const Trace& trace);

}  // namespace brim::memory
