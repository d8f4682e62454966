// A test for planners, above all for one of your own: drives it the way an account does, over a
// source that knows what it gave and streams that know what they have done, and throws where the
// planner breaks a promise of planner.h. It takes a few seconds; call it from a test. What it does
// not judge is how good a planner is: for that see `AccountStats` after a real step.
//
// What is checked, after every operation: reserved = live + cached + fragmented, none of them
// negative; placements on their boundary, inside of what the source gave, over nothing that is held
// and over nothing that work of another stream may still use; the bytes of others as they were.
// Bytes go back to the source as they were taken, once, and not before they are free and the work
// on them is done. A refusal leaves nothing behind, and room that is made serves again. Steps and
// sections may begin and end anywhere. Nothing is kept when the planner is destroyed. The same
// requests take the same bytes of any source: what the meta device predicts rests on it. What
// an account holds moves to other planners and back with its values (`Account::replan`).
#pragma once

#include <cstdint>
#include <vector>

#include "brim/base/error.h"
#include "brim/memory/planner.h"

namespace brim::memory {

/// A planner breaks a promise; the message names the planner, the promise and the numbers.
class ConformanceError : public Error {
 public:
  using Error::Error;
};

struct ConformanceOptions {
  int64_t capacity = int64_t{32} << 20;  ///< of the source
  int64_t largest = int64_t{2} << 20;    ///< request among the random ones
  int64_t operations = 3000;
  int streams = 3;
  uint64_t seed = 1;
  /// Of the sources: the host's, then a GPU's, but smaller, as `cudaMalloc` gives them and as
  /// virtual memory does.
  std::vector<Pages> pages = {{}, {.bytes = 4096}, {.bytes = 4096, .apart = true}};
  /// After `empty_cache`, when nothing is live, nothing is reserved. False for a planner that
  /// keeps what it took until it is destroyed.
  bool empties = true;
};

/// Throws `ConformanceError` at the first breach, `ValueError` for options out of their range. The
/// planner must not touch the bytes: some sources here have none.
void check_planner(const MakePlanner& make_planner, const ConformanceOptions& options = {});

}  // namespace brim::memory
