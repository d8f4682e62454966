// What a training step will hold, found before any byte is touched: the real step runs on the meta
// device, and the account of that device reads its peaks. Run each kind of step twice, evaluation
// and a smaller last batch too: the numbers are then those of the CPU, to the byte. They count
// tensors and kernels' scratch, not a loader's slots or the program itself. For one model layer by
// layer see nn/summary.h.
#pragma once

#include <functional>

#include "brim/memory/account.h"

namespace brim {

struct StepMemory {
  int64_t peak_reserved = 0, peak_live = 0;
  int64_t state = 0;  ///< live between steps: parameters, buffers, optimizer state
  memory::BytesByCategory at_peak{};
  int64_t host_peak_reserved = 0, host_peak_live = 0;  ///< of what is offloaded
};

/// Builds everything on the meta device, runs steps, and calls its argument once when only the
/// state that lives between steps is held.
using MetaProgram = std::function<void(const std::function<void()>& state_is_held)>;

struct MeasureOptions {
  /// Bytes of the device, as of the run's account: near them the caching planner gives bytes back
  /// and asks again, so a run reserves no more than it has, and may reserve less than without a
  /// limit. What another capacity needs is another question.
  int64_t capacity = memory::Source::kUnlimited;
};

/// Runs `program` against a fresh account of the meta device with the planner. Throws
/// `memory::OutOfMemory` where it runs out of the capacity: so would the real run.
StepMemory measure_on_meta(const memory::MakePlanner& planner, const MetaProgram& program,
                           const MeasureOptions& options = {});

}  // namespace brim
