// A training step that is refused each of its requests in turn, under any planner and with any
// recomputation: what tests of running out share. See faults.h for single faults.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "brim/tests/train/faults.h"

namespace brim::testing {

struct FaultCase {
  std::string planner;  ///< "direct", "caching" or "arena", with a plan of the step
  std::function<std::unique_ptr<nn::Module>(Device)> make;
  Problem problem;
  /// After how many refused attempts state is compared, which nothing would mend in between, and
  /// the step run again.
  int64_t repeat_every = 1;
  RecomputeOptions recompute = {};
  OffloadOptions offload = {};
};

struct Faults {
  int64_t refused = 0;     ///< requests of the device, each once
  int64_t fetched = 0;     ///< copies back from the host
  int64_t in_replays = 0;  ///< those of them that were made while something was made again
};

/// Requires of every refused step that it undid itself, bytes, gradients and state, and of those
/// that follow the bits of a training that keeps everything and is never disturbed.
Faults check_every_fault(const FaultCase& c);

}  // namespace brim::testing
