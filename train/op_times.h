// Where the predicted times of a training come from: a device's speed, nominal unless one is given,
// and, where it was asked for, times of its very ops. Times order ways of running the same
// training; no byte follows from them but by the plan that is chosen.
#pragma once

#include <memory>

#include "brim/train/device_speed.h"
#include "brim/train/measured_ops.h"

namespace brim {

struct OpTimes {
  DeviceSpeed speed = {};
  /// Times each op when it is first asked for; null: all follow from `speed`.
  std::shared_ptr<MeasuredOps> measured = {};

  /// To be asked for `seconds` of runs that were seen with it.
  OpRuns observer() const { return OpRuns(/*keeps_calls=*/measured != nullptr); }
  void learn(const SeenRuns& seen) const {
    if (measured != nullptr) measured->measure(seen.calls);
  }
  double seconds(const OpRun& run) const {
    if (measured != nullptr)
      if (std::optional<double> seconds = measured->seconds(run)) return *seconds;
    // Halves are widened before the op computes, and rounded after it.
    return roofline_seconds(run.op, run.phase, run.flops, run.bytes_moved, speed) +
           static_cast<double>(run.bytes_widened) / speed.bytes_per_second;
  }
};

}  // namespace brim
