// Where every buffer of a program goes, decided before the program runs: offsets in one arena whose
// height is what the program will reserve. Made from a trace of a rehearsal (memory/trace.h),
// replayed by the arena planner (memory/arena_planner.h), saved by memory/plan/plan_json.h.
//
// A plan holds several programs over one arena. The first is the set-up: all that comes before the
// first section. Each other one is a training step, or an evaluation of so many samples. Steps that
// begin with equal sections are one program, in which every different section is there once: a
// micro-step is planned once, however often a step repeats it. Bytes that live on after the
// program that asked for them (parameters, optimizer state, averages) have places of their own
// at the bottom; the programs share what is above.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brim/memory/category.h"
#include "brim/memory/section.h"
#include "brim/memory/site.h"
#include "brim/memory/trace.h"

namespace brim::memory {

/// Who asks, as far as the next run of the program can be expected to say the same.
struct PlannedSite {
  std::string op;      ///< "conv2d"; "" outside of ops
  std::string module;  ///< "layer1.0.conv1"
  Phase phase = Phase::other;
  friend auto operator<=>(const PlannedSite&, const PlannedSite&) = default;
};

struct PlannedRequest {
  int64_t bytes = 0;
  /// From the start of the arena; -1 for what lives on after the program, which goes to any free
  /// place of `Plan::kept` with as many bytes.
  int64_t offset = -1;
  /// Requests of a program are counted from 0 through its sections: of the first one that finds
  /// the buffer gone. 0 where the offset is -1.
  int64_t death = 0;
  int32_t site = 0;         ///< number in `Plan::sites`
  bool begins_run = false;  ///< the first of a run of an op, or of those between two
  friend bool operator==(const PlannedRequest&, const PlannedRequest&) = default;
};

struct PlannedSection {
  Section section;
  std::vector<Section> nested;  ///< sections inside this one, part of its requests
  std::vector<PlannedRequest> requests;
  /// As many of the requests come before the section begins: since the one before it, or since the
  /// program before.
  int64_t preamble = 0;
  int64_t peak_live = 0;  ///< the most that is live in it, all that lives longer included
  friend bool operator==(const PlannedSection&, const PlannedSection&) = default;
};

struct PlannedProgram {
  bool step = false;  ///< a training step, between the planner's `begin_step` and `end_step`
  std::vector<PlannedSection> sections;
  int64_t top = 0;  ///< of the arena, it uses the bytes below this offset
  friend bool operator==(const PlannedProgram&, const PlannedProgram&) = default;
};

/// `count` places of `bytes` each, side by side, for what lives longer than a program. Equal sizes
/// are interchangeable, so the order in which a program makes such buffers does not matter.
struct KeptPlaces {
  int64_t bytes = 0, count = 0, offset = 0;
  friend bool operator==(const KeptPlaces&, const KeptPlaces&) = default;
};

struct Plan {
  /// The question that this plan answers: model, batch, options, version, threads. The maker's own;
  /// a saved plan is taken only for the same one.
  std::string identity;
  int64_t arena_bytes = 0;  ///< the peak of reserved bytes, and what is reserved from the start
  /// The largest sum of live bytes of the recording, which no planner can hold less than.
  int64_t lower_bound = 0;
  BytesByCategory at_peak{};  ///< live bytes at that moment
  int64_t kept_bytes = 0;     ///< the bottom of the arena, where `kept` is
  std::vector<KeptPlaces> kept;
  std::vector<PlannedSite> sites;
  std::vector<PlannedProgram> programs;  ///< the first is the set-up

  /// By how much the arena is larger than the lower bound: 0.01 is 1%.
  double gap() const;
  friend bool operator==(const Plan&, const Plan&) = default;
};

struct PlanOptions {
  std::string identity;
  /// That share buffers: of packings of the same height, one in which they take fewer bytes from
  /// each other (memory/plan/same_threads.h). 1: no matter.
  int threads = 1;
};

/// A plan under which the recorded program runs again. Where sections of the same kind and size
/// asked for different requests, the last is planned for, and the arena planner serves the others
/// as far as they agree.
Plan make_plan(const Trace& trace, const PlanOptions& options = {});

/// Where the arena planner puts each buffer of a trace, from the start of the arena; -1 for what it
/// puts elsewhere.
std::vector<int64_t> offsets_in(const Plan& plan, const Trace& trace);

}  // namespace brim::memory
