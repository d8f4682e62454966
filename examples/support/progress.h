// Live progress of a training run: one line that is rewritten on a terminal, and plain lines, a
// few per epoch, elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "brim/train/trainer.h"

namespace brim::examples {

class Progress {
 public:
  struct Plan {
    int64_t steps = 0, steps_per_epoch = 1, epochs = 1;
    Device device = {};
    bool quiet = false;
  };
  explicit Progress(const Plan& plan);

  void step(const StepReport& report);
  void epoch(const EpochReport& report);
  /// A line of its own, above the live one.
  void say(const std::string& line);

 private:
  std::string time_left(int64_t step) const;
  void show(const std::string& line, bool last);

  Plan plan_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_, shown_;
  double smooth_loss_ = 0, smooth_rate_ = 0;
};

}  // namespace brim::examples
