// What a training run tells: live progress for people (progress.h), events for programs (events.h).
// `train` calls it from the callbacks of `Trainer`; the speed in the last line is a median without
// the first steps, which warm caches up. Flags, data and events must outlive it.
#pragma once

#include <optional>
#include <vector>

#include "brim/apps/support/data_notes.h"
#include "brim/apps/support/events.h"
#include "brim/apps/support/progress.h"
#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_flags.h"

namespace brim::apps {

class TrainReport {
 public:
  /// Says what is about to be trained.
  TrainReport(const TrainFlags& flags, const TrainData& data, nn::Module& model, Events& events);

  void step(const StepReport& report);
  void evaluation(int64_t done, int64_t all) { progress_.evaluation(done, all); }
  void epoch(const EpochReport& report);
  /// A line for people; nothing for "".
  void say(const std::string& line);
  void prune(const PruneReport& report);
  void replan(const ReplanReport& report);
  /// The last line: medians, peaks beside what was predicted (`first` by the plan that the run
  /// began with), accuracy.
  void done(const StepMemory& first, const Trainer& trainer);

 private:
  void say_data_notes();
  void note_growth();
  void say_gpu(const TrainFlags& flags, const TrainData& data);
  void say_process(int64_t peak_reserved);

  const TrainFlags& flags_;
  const TrainData& data_;
  Events& events_;
  Progress progress_;
  std::vector<double> seconds_, rates_;
  std::optional<double> accuracy_, top5_;
  DataNotes notes_;
  std::optional<int64_t> growth_;                        // of a GPU's context, by the first updates
  int64_t replanned_reserved_ = 0, replanned_live_ = 0;  // the most of all plans after the first
};

}  // namespace brim::apps
