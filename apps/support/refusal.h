// What is said where a run does not fit its limit: the least bytes that would do for the very same
// flags, and changes of the run that were planned and fit. In a program of your own climb the
// ladder (train/ladder.h), or ask `find_smaller_batch` (train/remedies.h).
#pragma once

#include <string>

#include "brim/apps/support/events.h"
#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_flags.h"
#include "brim/train/ladder.h"

namespace brim::apps {

struct Refusal {
  /// Bytes that suffice for the run of the flags with what they leave to the budget, and with
  /// nothing that is proposed: asked again with these it runs.
  int64_t least = 0;
  std::string message;  ///< for people
  Json fits;            ///< changes with which it does: remedy, predicted_peak_bytes, relative_time
};

/// What could be changed of the run of the flags for it to fit their limit.
LadderResult climb_ladder(const TrainFlags& flags, const TrainData& data);

/// For a run that holds `need`, which is above the limit of the flags.
Refusal refusal_of(const TrainFlags& flags, const TrainData& data, const StepMemory& need,
                   const LadderResult& ladder);

/// Writes the event "refused" for such a run, and throws `DoesNotFit`.
[[noreturn]] void refuse(const TrainFlags& flags, const TrainData& data, const StepMemory& need,
                         Events& events);

}  // namespace brim::apps
