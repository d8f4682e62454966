// What a way to recompute makes again for backward: saved values and predicted time, counted in a
// rehearsal of one micro-step, so for any policy, planned or not. What a plan dropped in the graph
// of a step is in `RecomputeChoice` (recompute_plan.h).
#pragma once

#include <cstdint>
#include <vector>

#include "brim/train/recompute_options.h"
#include "brim/train/recorded_step.h"

namespace brim {

/// Of each value of the step, whether backward reads it and a policy may drop it: what a policy
/// does with others, such as statistics, changes nothing.
std::vector<bool> saved_values(const RecordedStep& step);

struct MadeAgain {
  int64_t values = 0;  ///< saved ones, each once, however often it is made
  double seconds = 0;  ///< predicted, waits for copies included
};

/// Asked about several ways of one training.
class MicroStepAgain {
 public:
  /// The training as it says, but for what it recomputes.
  explicit MicroStepAgain(const RehearsalOptions& training);

  MadeAgain with(const RecomputeOptions& way) const;
  /// That values are counted of: everything is kept in it.
  const RecordedStep& step() const { return step_; }

 private:
  RehearsalOptions one_;
  RecordedStep step_;
  double kept_seconds_ = 0;
};

/// As `training` recomputes.
MadeAgain made_again(const RehearsalOptions& training);

}  // namespace brim
