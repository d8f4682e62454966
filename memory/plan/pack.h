// Packing: offsets for buffers whose lifetimes are known, so that what lives at the same time does
// not overlap and the highest end is low. Whole plans are packed with it (an arena replays them);
// requests that come one by one are for a planner (memory/planner.h). docs/packing.md explains how.
//
// The same question always has the same answer: work is counted, not timed, and two searches run
// side by side on any number of cores.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "brim/memory/plan/lifetime.h"

namespace brim::memory {

struct PackOptions {
  /// Offsets are multiples of it, for which all sizes are first rounded up to it.
  int64_t alignment = 1;
  /// Bytes to fit into: stop as soon as that is done. 0: as low as possible.
  int64_t capacity = 0;
  /// The work after which to give up: places tried for a buffer, by both searches together. Where a
  /// trial takes longer, in problems of many thousands of buffers, it counts for more. Of the order
  /// of 2 microseconds each.
  int64_t nodes = 2'000'000;
  uint64_t seed = 0;
  /// Where it returns true, the best so far is the answer: a person's time limit. It is asked by
  /// the calling thread only, every few milliseconds; for 100,000 buffers, tenths of seconds.
  std::function<bool()> stop = {};
};

struct Packing {
  std::vector<int64_t> offsets;  ///< in the order of the lifetimes
  int64_t height = 0;            ///< the highest end, of sizes rounded up to the alignment
  int64_t lower_bound = 0;       ///< the largest sum of sizes, rounded up, that live at once
  /// No packing is lower; if `height` is above the capacity: none fits it.
  bool proved = false;
  /// height / lower_bound - 1.
  double gap() const;
};

/// Packs buffers. Every result has gone through `check_packing`. Buffers of no bytes lie at 0.
/// Throws `ValueError` for lower >= upper, sizes below 0 or that add up to 2^63 or more, an
/// alignment below 1, and a capacity that one buffer alone exceeds.
Packing pack(std::span<const Lifetime> lifetimes, const PackOptions& options = {});

}  // namespace brim::memory
