// Names for what a GPU does, in the timeline of a profiler (Nsight Systems): NVTX ranges. Where
// none is attached, nothing is named.
#pragma once

namespace brim::cuda {

/// Whether a profiler listens, or BRIM_NVTX=1 says so.
bool names_are_seen();

/// What this thread enqueues until the scope ends is called `name` there.
class NamedRange {
 public:
  explicit NamedRange(const char* name);
  ~NamedRange();
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;
};

}  // namespace brim::cuda
