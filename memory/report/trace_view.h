// The parts of a trace that one looks at: the whole, the set-up, each step, each section. What the
// page's selector offers, and the slices of a Chrome trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brim/memory/trace.h"

namespace brim::memory {

struct TraceView {
  std::string label;  ///< "Step 0: first micro-step of 64"
  int64_t begin = 0, end = 0;
  int depth = 0;  ///< 0: the whole; 1: a step, an evaluation, the set-up; 2: a section of a step
};

/// Those in which something is asked for, in order; the whole is the first.
std::vector<TraceView> views_of(const Trace& trace);

/// The number of the first view of depth 1 that `time` lies in; 0 where none is.
size_t view_at(const std::vector<TraceView>& views, int64_t time);

}  // namespace brim::memory
