// What a training run tells: live progress for people, events for programs.
#pragma once

#include <optional>
#include <vector>

#include "brim/examples/support/events.h"
#include "brim/examples/support/progress.h"
#include "brim/examples/support/train_data.h"
#include "brim/examples/support/train_flags.h"

namespace brim::examples {

class TrainReport {
 public:
  /// Says what is about to be trained.
  TrainReport(const TrainFlags& flags, const TrainData& data, nn::Module& model, Events& events);

  void step(const StepReport& report);
  void epoch(const EpochReport& report);
  /// The last line: medians, peaks, accuracy.
  void done();

 private:
  const TrainFlags& flags_;
  const TrainData& data_;
  Events& events_;
  Progress progress_;
  std::vector<double> seconds_, rates_;
  std::optional<double> accuracy_;
};

}  // namespace brim::examples
