// What to change where a training does not fit, each proposal planned and found to fit: for the
// refusal before the first step, and for the error of a step that ran out of memory. A plan is a
// run on the meta device (step_memory.h), so a search takes some of those and no device memory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "brim/memory/out_of_memory.h"
#include "brim/train/step_memory.h"

namespace brim {

/// What training with `batch` images at once will hold; nothing where the model cannot train with
/// so few.
using PlanBatch = std::function<std::optional<StepMemory>(int64_t batch)>;

struct BatchChoice {
  int64_t batch = 0;
  StepMemory memory;
};

/// "batch 48 fits: predicted peak 1.2 GiB".
std::string to_string(const BatchChoice& choice);

struct SmallerBatch {
  BatchChoice least;                ///< the smallest batch that the model can train with
  std::optional<BatchChoice> fits;  ///< one that fits while one more is beyond the limit
};

/// Searches below `batch`, which does not fit `limit` bytes, by doubling and bisection on plans:
/// about twice the logarithm of what fits of them. Bytes are not monotonic in the batch, so a
/// larger one than `fits` may fit too; `tune_batch` (batch_tuning.h) finds the largest, with more
/// plans.
SmallerBatch find_smaller_batch(const PlanBatch& plan, int64_t batch, int64_t limit);

/// `error` of a step with `batch` images, with the smaller batch that fits beside what is held of
/// the account and no part of the training's state; as it is where none does, where it was
/// injected, or where planning fails.
memory::OutOfMemory with_remedies(const memory::OutOfMemory& error, const PlanBatch& plan,
                                  int64_t batch);

}  // namespace brim
