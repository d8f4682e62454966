// Where a program holds the most: the moment, what is live then, and what the program is doing. For
// tables and messages; the page of memory/report/html.h shows every moment.
#pragma once

#include <optional>
#include <vector>

#include "brim/memory/trace.h"

namespace brim::memory {

struct Peak {
  int64_t time = 0;  ///< the allocation that reaches it, or the begin of the range
  int64_t live = 0;  ///< bytes
  BytesByCategory by_category{};
  std::vector<int64_t> buffers;   ///< live then, the largest first; of equals the oldest
  std::optional<size_t> section;  ///< of `Trace::sections`; the innermost
  std::optional<size_t> op;       ///< of `Trace::ops`: the one that runs, or ran last
};

/// The first moment in [begin, end) at which the most is live.
Peak peak_of(const Trace& trace, int64_t begin, int64_t end);
Peak peak_of(const Trace& trace);

}  // namespace brim::memory
