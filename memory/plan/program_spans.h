// Cuts a trace into the programs that it is made of: which stretch of it is set-up, a training step
// or an evaluation, and which buffers live on after the program that asked for them. The first half
// of `make_plan`; not for anything else.
#pragma once

#include <cstdint>
#include <vector>

#include "brim/memory/trace.h"

namespace brim::memory {

/// A section that is in no other one, with what was asked for since the one before it.
struct SectionSpan {
  Section section;
  std::vector<Section> nested;
  int64_t begin = 0;  ///< time at which the section before ended
  int64_t body = 0;   ///< time at which this one began
  int64_t end = 0;
};

/// One time that a program ran.
struct ProgramSpan {
  bool step = false;
  std::vector<SectionSpan> sections;  ///< never empty; one after another
  int64_t begin() const { return sections.front().begin; }
  int64_t end() const { return sections.back().end; }
};

struct ProgramSpans {
  int64_t setup_end = 0;
  std::vector<ProgramSpan> programs;
  /// Of each buffer: does it live on after the program, or the set-up, that asked for it? Those
  /// asked for after the last program do not count.
  std::vector<bool> kept;

  /// Time from which on no program runs.
  int64_t end() const { return programs.empty() ? setup_end : programs.back().end(); }
};

/// Does the buffer begin a run of an op, or of requests between two, when `previous` came before?
bool begins_run(const TraceBuffer& buffer, const TraceBuffer& previous);

ProgramSpans find_programs(const Trace& trace);

}  // namespace brim::memory
