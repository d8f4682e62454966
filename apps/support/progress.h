// Live progress of a training run on standard output: one line that is rewritten on a terminal, and
// plain lines, a few per epoch, elsewhere. Loss and images/s of a step's line are moving averages.
// A line that is lost throws what `check_output` throws (output.h).
// For people: another program reads events.h, and exact numbers are in the reports of `Trainer`.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "brim/train/trainer.h"

namespace brim::apps {

class Progress {
 public:
  struct Plan {
    int64_t steps = 0, steps_per_epoch = 1, epochs = 1;
    Device device = {};
    bool quiet = false;
    bool gradient_norm = false;  ///< beside the loss, for who clips it
  };
  explicit Progress(const Plan& plan);
  /// Ends the live line, so that what comes next has a line of its own.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepReport& report);
  void evaluation(int64_t done, int64_t all);
  void epoch(const EpochReport& report);
  /// A line of its own, above the live one.
  void say(const std::string& line);

 private:
  bool due(bool quarter) const;
  std::string time_left(int64_t step) const;
  void show(const std::string& line, bool last);

  Plan plan_;
  bool terminal_, line_open_ = false;
  std::chrono::steady_clock::time_point start_, shown_;
  int64_t before_ = -1;  // steps that another run had done; -1 until the first of this one
  double smooth_loss_ = 0, smooth_norm_ = 0, smooth_rate_ = 0;
  std::string accuracy_;  // of the last evaluation
};

}  // namespace brim::apps
