// The ways of keeping less for backward that every model is trained with, in a table of a line
// each: a new way joins all tests of tests/recompute/ there.
#pragma once

#include <string>
#include <vector>

#include "brim/tests/recompute/zoo.h"

namespace brim::testing {

/// What a training holds at its peak under the arena, in bytes.
struct ByteRange {
  int64_t least = 0;  ///< that was found
  int64_t most = 0;   ///< with everything kept
  /// `share` of the way from the least.
  int64_t at(double share) const {
    return least + static_cast<int64_t>(share * static_cast<double>(most - least));
  }
};

ByteRange byte_range(const ZooTraining& training);

struct Mode {
  std::string name;
  RecomputeOptions recompute;
  OffloadOptions offload = {};
  bool reads_rows = false;  ///< also where images are large enough for that
};

/// A plan of which the calls of a step have the fates in turns, budget or not.
RecomputeOptions planned_in_turns(const RehearsalOptions& training,
                                  const std::vector<autograd::Fate>& fates);

/// Where calls run again that were chosen before the step. Plans for budgets are of the training as
/// it is given, in its dtype and under the arena; they can be followed in any.
std::vector<Mode> modes_of(const ZooTraining& training);

/// Eviction within the least budget that a rehearsal goes through, and offloading everything: for
/// this training alone, since a budget is in bytes of its dtype.
std::vector<Mode> modes_without_plan(const ZooTraining& training);

}  // namespace brim::testing
