// Buffers that outlive their last use: nobody reads them any more, yet they take room, because a
// name in scope, a closure or a caller still holds the tensor. Found from a trace: the last use is
// the last kernel that read or wrote the buffer, so saved tensors, which backward will read, are
// none of these, and neither is what there was before all sections and still is after them
// (parameters, the state of an optimizer). Reads by the host (`item`, `to_vector`) are no kernels:
// what is kept for one is listed too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brim/memory/trace.h"

namespace brim::memory {

struct OutlivingBuffer {
  int64_t buffer = 0;         ///< its number in the trace
  int64_t idle = 0;           ///< time from its last use to its death
  int64_t bytes_at_peak = 0;  ///< its bytes, if it is held for nothing at the peak of a section
};

/// One section of the trace, or all of a trace without sections.
struct OutlivingAtPeak {
  Section section;
  int64_t peak = 0;      ///< of live bytes, in the section
  int64_t possible = 0;  ///< the peak if every buffer were given back after its last use
  int64_t bytes = 0;     ///< held for nothing where `peak` is first reached
};

struct Outliving {
  /// Those that take room at a peak first, then by bytes times idle time.
  std::vector<OutlivingBuffer> buffers;
  std::vector<OutlivingAtPeak> sections;
};

Outliving find_outliving(const Trace& trace);

/// For people: each kind of section, and the worst buffers of those that take room at a peak, by
/// what they are and where they come from.
std::string to_string(const Outliving& outliving, const Trace& trace);

}  // namespace brim::memory
