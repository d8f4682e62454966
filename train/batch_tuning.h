// The largest batch that a training fits its budget with: found before the first byte, by
// rehearsals on the meta device, and true to the byte. docs/batch.md explains it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "brim/train/rehearsal.h"
#include "brim/train/step_memory.h"

namespace brim {

struct BatchTuning {
  /// The training with `batch` images at once.
  std::function<RehearsalOptions(int64_t batch)> rehearsal;
  std::string planner = "arena";  ///< or "caching", "direct"
  int64_t limit = 0;              ///< bytes that the run may reserve: the cap of its account
  int64_t most = 1;               ///< the largest batch to look at
  int64_t multiple = 1;           ///< of which the batch shall be one
  /// Images of an update that comes in parts of the batch; 0 for updates of one batch. The batch is
  /// then made as small as the number of parts allows, so that the parts are alike.
  int64_t update_images = 0;
};

struct TunedBatch {
  int64_t batch = 0;  ///< 0: none fits
  /// The largest that fits; with `update_images` the batch may be smaller, so that parts are alike.
  int64_t largest = 0;
  int64_t least = 0;  ///< the smallest that the model can train with
  /// Of `batch`, or of `least` where none fits.
  StepMemory memory;
  /// What the next larger one takes at least, or without a limit where its rehearsal ran out;
  /// 0 where `batch` is the largest that may be.
  int64_t next_takes = 0;
  int64_t rehearsals = 0;  ///< that it took
};

/// Every larger batch up to `most` does not fit: the live bytes of its first micro-step without
/// scratch, which are monotonic and which every planner reserves at least, are above the limit, or
/// its own rehearsal is. Rehearsals for the caching planner have the limit as capacity: near it the
/// planner gives cached bytes back and asks again, so more fits than without a limit, and what is
/// found is true of a run with exactly this cap (docs/batch.md).
///
/// Throws `ValueError` for a limit below 1, where `most` is below `multiple`, and where no batch
/// can be rehearsed.
TunedBatch tune_batch(const BatchTuning& tuning);

}  // namespace brim
