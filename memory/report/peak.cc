#include "brim/memory/report/peak.h"

#include <algorithm>

namespace brim::memory {
Peak peak_of(const Trace& trace, int64_t begin, int64_t end) {
  Peak peak{.time = begin};
  if (begin >= end) return peak;
  std::vector<int64_t> live = live_bytes(trace.lifetimes(), trace.end);
  auto most = std::max_element(live.begin() + begin, live.begin() + end);
  peak.time = most - live.begin();
  peak.live = *most;
  for (const TraceBuffer& buffer : trace.buffers) {
    if (buffer.birth > peak.time || buffer.death <= peak.time) continue;
    peak.by_category[static_cast<size_t>(buffer.category)] += buffer.bytes;
    peak.buffers.push_back(buffer.birth);
  }
  std::ranges::stable_sort(peak.buffers, std::greater(),
                           [&](int64_t i) { return trace.buffers[static_cast<size_t>(i)].bytes; });
  for (size_t i = 0; i < trace.sections.size(); ++i)
    if (trace.sections[i].begin <= peak.time && peak.time < trace.sections[i].end) peak.section = i;
  for (size_t i = 0; i < trace.ops.size(); ++i)
    if (trace.ops[i].begin <= peak.time) peak.op = i;
  return peak;
}

Peak peak_of(const Trace& trace) { return peak_of(trace, 0, trace.end); }

}  // namespace brim::memory
