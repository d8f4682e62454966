// A plan as the arena planner reads it: every request of a program in one row, beside the block
// that it is served with, and which blocks must be gone before it. Made once from a `Plan`; the
// plan must outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "brim/memory/plan/plan.h"
#include "brim/memory/planner.h"

namespace brim::memory {

/// Bytes of the arena, or beyond it, that are held or were.
struct ArenaBlock {
  enum class Kind : uint8_t { none, planned, kept, stray, beyond };
  Kind kind = Kind::none;    ///< none: not held
  bool is_obstacle = false;  ///< listed in `Obstacles`
  int stream = 0;            ///< that it was asked for on, also the last time
  int32_t program = -1;      ///< of a planned one; of a kept one, the number in `Plan::kept`
  int64_t offset = 0, bytes = 0;
  int64_t birth = 0, death = 0;  ///< of a planned one, in requests of the program
  Site site;
  Placement beyond;                                 ///< what another planner gave
  ArenaBlock *previous = nullptr, *next = nullptr;  ///< in a list of those that are held
};

struct Expected {
  int64_t bytes = 0;
  /// As the program said them the last time: equal pointers spare comparing text.
  const char* op = nullptr;
  const std::string* module = nullptr;
  uint64_t met = 0;  ///< the run of the section in which it was met last
  int32_t site = 0;
  int32_t kept = -1;  ///< number in `Plan::kept`; -1 for one with an offset
  uint32_t first_before = 0, before_count = 0;  ///< in `ExpectedProgram::before`
  bool begins_run = false;
};

struct ExpectedSection {
  const PlannedSection* planned = nullptr;
  int64_t begin = 0, body = 0, end = 0;  ///< of its requests in the program; `body` as it begins
};

struct ExpectedProgram {
  bool step = false;
  std::vector<ExpectedSection> sections;
  std::vector<Expected> requests;
  std::vector<ArenaBlock> blocks;  ///< one a request
  /// Of each request, the latest earlier ones in the bytes that it takes over: of its own section,
  /// and those that live on from an earlier one. When every request up to some time was either
  /// found with these gone or what was left of them is known, nothing else can be in its place.
  std::vector<int32_t> before;

  std::span<const int32_t> before_of(const Expected& request) const {
    return std::span(before).subspan(request.first_before, request.before_count);
  }
  int64_t size() const { return static_cast<int64_t>(requests.size()); }
  Expected& request(int64_t i) { return requests[static_cast<size_t>(i)]; }
  ArenaBlock& block(int64_t i) { return blocks[static_cast<size_t>(i)]; }
};

std::vector<ExpectedProgram> expect_programs(const Plan& plan);

}  // namespace brim::memory
