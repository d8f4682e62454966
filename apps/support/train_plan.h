// What the training run will hold, asked before the first byte of a tensor is taken, and what the
// budget chooses of it: batch, recomputation, offload. Each prediction runs a few steps and
// evaluations on the meta device, and the search for a batch makes several. What is said where
// nothing fits is in refusal.h. For a prediction without the flags and events of `train` use
// train/rehearsed_plan.h.
#pragma once

#include <optional>

#include "brim/apps/support/events.h"
#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_flags.h"
#include "brim/train/recompute_plan.h"

namespace brim::apps {

struct MemoryPlan {
  /// "rehearsal", "file" for that of `--plan`, "checkpoint" where a run goes on.
  std::string from = "rehearsal";
  StepMemory predicted;
  /// For another planner than the arena it has no plan. A trace it has where it was rehearsed, and
  /// for `--trace` and `--save-plan`.
  RehearsedPlan training;
  /// Makes the planner that the flags name.
  memory::MakePlanner planner(const TrainFlags& flags) const;
};

/// The run of the flags as far as memory can tell, with `batch` images at once. Refers to `data`.
RehearsalOptions rehearsal_of(const TrainFlags& flags, const TrainData& data, int64_t batch);

/// Predicted time of an update of the flags, against one micro-batch with everything kept.
double relative_time(const TrainFlags& flags, const TrainData& data);

/// What the run would hold at `batch` images under the planner of the flags. `data` need not have
/// its loaders.
MemoryPlan predict_memory(const TrainFlags& flags, const TrainData& data, int64_t batch);

/// The least that the run of the flags was found to hold, in bytes, with all that they leave to the
/// budget: with less they are refused. To be asked before `choose_recompute`; it plans for the
/// least budget, so it takes as long as a refusal.
int64_t least_bytes(TrainFlags flags, const TrainData& data);

/// What `--resume` finds of a plan.
struct KeptMemory {
  std::optional<MemoryPlan> plan;
  std::string said;  ///< for people, of what it is, or why it is not taken; "" for nothing
};

/// The plan of a checkpoint (`Checkpoint::plan`) where it is for the run of the flags and their
/// memory, and its batch, where the flags leave that open.
KeptMemory take_up_plan(TrainFlags& flags, const TrainData& data, const std::string& kept);

/// Chooses the batch where the flags leave that to the budget, and what depends on it; says so.
/// Throws `DoesNotFit`, after writing the event "refused", where none fits.
void choose_batch(TrainFlags& flags, const TrainData& data, Events& events);

/// Chooses what forward computes in, where the flags leave that open: float32 where the batch of
/// the flags fits in it, before more is recomputed than they say, else bfloat16, unless only
/// float32 fits when more is; says so.
void choose_precision(TrainFlags& flags, const TrainData& data, const Events& events);

/// Chooses what is recomputed and offloaded, for the batch of the flags, where they leave that to
/// the budget; says so. What was chosen, where something was planned that fits;
/// else `TrainFlags::least_planned` has the least, where something was planned.
std::optional<RecomputeChoice> choose_recompute(TrainFlags& flags, const TrainData& data,
                                                Events& events);

/// The plan for the batch of the flags: `kept`, or from `--plan` where that file answers the same
/// question, or made; written as the event "plan". Throws `DoesNotFit`, after writing the event
/// "refused", where it is above the budget.
MemoryPlan plan_memory(const TrainFlags& flags, const TrainData& data, Events& events,
                       std::optional<MemoryPlan> kept = {});

/// Writes it to `--save-plan`, if that is asked for. Throws `FileError`.
void keep_plan(const TrainFlags& flags, const TrainData& data, const MemoryPlan& plan);

}  // namespace brim::apps
