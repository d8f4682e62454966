// Policies over the calls of a whole forward pass, known by their number: one that was planned for
// each result (train/recompute_plan.h), and one that cuts the tape into segments of equal length,
// as `checkpoint_sequential` cuts a chain of modules. Make a new one for each forward pass.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "brim/autograd/save_policy.h"

namespace brim::autograd {

/// Of each recorded call in order, of each output; empty for a call whose results are all kept.
using Fates = std::vector<std::vector<Fate>>;

/// Calls beyond those that were planned, or with another number of outputs, are kept.
class PlannedRecomputation final : public SavePolicy {
 public:
  explicit PlannedRecomputation(std::shared_ptr<const Fates> fates);
  Decision decide(const RecordedCall& call) override;

 private:
  std::shared_ptr<const Fates> fates_;
  size_t next_ = 0;
};

/// The first `segments - 1` stretches of `calls` recorded calls each are dropped but for what later
/// ones read; the rest is kept, since backward begins there.
class SegmentedRecomputation final : public SavePolicy {
 public:
  /// Throws `ValueError` unless both are above 0.
  SegmentedRecomputation(int64_t segments, int64_t calls);
  Decision decide(const RecordedCall& call) override;

 private:
  int64_t segments_, calls_, next_ = 0;
  uint64_t first_id_;
};

}  // namespace brim::autograd
