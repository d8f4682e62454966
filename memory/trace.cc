#include "brim/memory/trace.h"

#include <algorithm>

namespace brim::memory {

int64_t Trace::peak_live() const {
  std::vector<int64_t> change(static_cast<size_t>(end) + 1);
  for (const TraceBuffer& buffer : buffers) {
    change[static_cast<size_t>(buffer.birth)] += buffer.bytes;
    change[static_cast<size_t>(buffer.death)] -= buffer.bytes;
  }
  int64_t live = 0, peak = 0;
  for (int64_t bytes : change) peak = std::max(peak, live += bytes);
  return peak;
}

}  // namespace brim::memory
