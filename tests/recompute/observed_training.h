// A training run for real, and all that must not depend on memory policy as short numbers to
// compare: every loss; the bits of every result and every gradient of every call, in each step;
// the random numbers' addresses; parameters, buffers and optimizer state at the end. With the bytes
// that it held.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brim/memory/account.h"
#include "brim/tests/recompute/zoo.h"

namespace brim::testing {

/// Of one thing, by name.
struct Digest {
  std::string name;
  uint64_t bits = 0;
  bool operator==(const Digest&) const = default;
};

struct ObservedTraining {
  std::vector<double> losses;
  std::vector<Digest> digests;  ///< in the order in which they were taken
  int64_t replays = 0;          ///< calls that ran again
  int64_t by_rows = 0;          ///< of these, for some images of the batch
  int64_t fetched = 0;          ///< saved tensors that came back from the host
  /// In the end, when all was given back: of the device, and of what was offloaded.
  memory::AccountStats stats, host;
};

struct ObserveOptions {
  RecomputeOptions recompute = {};
  OffloadOptions offload = {};
  memory::MakePlanner planner = memory::planner_named("direct");
  int64_t cap = memory::Source::kUnlimited;
};

ObservedTraining observe(const ZooTraining& training, const ObserveOptions& options);

/// Where the two first differ, in words; "" where they do not.
std::string difference(const ObservedTraining& a, const ObservedTraining& b);

}  // namespace brim::testing
