// How long an update takes, from what its rehearsal computes and moves, and how long that takes
// (`RehearsalOptions::op_times`). For ratios between ways of running the same training; seconds
// that one can trust need a measurement of whole steps (train/batch_speed.h).
#pragma once

#include "brim/train/rehearsal.h"

namespace brim {

/// Of one whole update with all its micro-batches and their waits for copies
/// (`RecomputeOptions::wait_seconds`), without the wait for its images. Rehearses it up to three
/// times.
double predicted_seconds(const RehearsalOptions& training);

}  // namespace brim
