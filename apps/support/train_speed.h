// `--batch fastest`: a few timed steps at planned sizes, and the knee of the curve. In a program of
// your own call `measure_speed` and `knee` (train/batch_speed.h).
#pragma once

#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_flags.h"
#include "brim/train/batch_speed.h"

namespace brim::apps {

/// Images per second of the run of the flags on random pixels, for batches from `least` to `most`,
/// which fits: those of `candidate_batches` that fit too, each under the plan for it, until three
/// in a row brought less than 5%.
std::vector<SpeedPoint> measure_batches(const TrainFlags& flags, const TrainData& data,
                                        int64_t least, int64_t most);

}  // namespace brim::apps
