// brim's promise as one call: name the bytes, and the training is planned before it begins, and
// never holds more.
//
//   TrainingPlan plan = plan_training(recipe, {.bytes = int64_t{2} << 30, .batch = 64});
//   std::puts(plan.table().c_str());  // what was considered: bytes, time, verdict
//   if (plan.fits()) Training trained = plan.train(photos, {.epochs = 20});
//
// Recomputation, which leaves every number as it is, is chosen where it is needed; what changes
// numbers, or cannot be undone, is proposed in the table, for budget and recipe to ask for. Not to
// fit is an ordinary answer. On the CPU so far; for images with evaluation, checkpoints and
// replanning there is `Trainer` (train/trainer.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brim/budget/example_source.h"
#include "brim/budget/recipe.h"
#include "brim/budget/training.h"
#include "brim/optim/schedule.h"
#include "brim/train/ladder.h"
#include "brim/train/rehearsed_plan.h"

namespace brim {

struct Budget {
  int64_t bytes = 0;        ///< of tensors and scratch, never to be exceeded
  int64_t batch = 0;        ///< examples of an update, from 1
  int64_t micro_batch = 0;  ///< of them at once, the last part smaller; 0: all
};

struct EpochOptions {
  int64_t epochs = 1;
  optim::Schedule schedule = optim::ConstantSchedule{};  ///< of the rate, by update
  /// After each update: how many there were, and its loss.
  std::function<void(int64_t update, double loss)> on_update = {};
};

class TrainingPlan {
 public:
  bool fits() const { return ladder_.chosen.has_value(); }
  /// What was considered, a line each: remedies, bytes, time relative to what was asked for, and
  /// whether it fits.
  std::string table() const { return to_table(ladder_); }
  /// "" where it fits; else what a step takes, and what would fit or needs least.
  std::string why_not() const;
  /// What was chosen: none where it fits as it was asked for.
  const std::vector<std::string>& remedies() const { return rung().remedies; }
  int64_t batch() const { return rung().setup.rehearsal.update_images(); }
  int64_t micro_batch() const { return rung().setup.rehearsal.batch; }
  /// Predicted, of what was asked for.
  double relative_time() const { return rung().relative_time; }
  /// To the byte what a training holds under it; where it does not fit, of what was asked for.
  const StepMemory& predicted() const { return rung().memory; }

  /// Takes the plan's bytes and makes model, optimizer and step. Throws `ValueError` where the plan
  /// does not fit, with `why_not`, where the recipe makes another model than when it was planned,
  /// or kernels would now take other scratch (another number of threads); `memory::OutOfMemory`
  /// where the machine does not have the bytes.
  Training begin() const;
  /// Trains. Throws as `begin` and `Training::update` do, and `ValueError` for fewer epochs than
  /// one and a source whose epoch has no whole batch.
  Training train(ExampleSource& source, const EpochOptions& options = {}) const;

 private:
  friend TrainingPlan plan_training(Recipe recipe, const Budget& budget);
  TrainingPlan() = default;
  /// What was chosen, else what was asked for.
  const Rung& rung() const { return ladder_.considered[ladder_.chosen.value_or(0)]; }

  std::shared_ptr<const Recipe> recipe_;
  Budget budget_;
  LadderResult ladder_;
  std::shared_ptr<const memory::Plan> plan_;  // null where it does not fit
  std::vector<std::string> tensors_;          // of the model that it is for
};

/// Plans without a byte. Throws `ValueError` for a budget or a batch below 1, a micro-batch beyond
/// the batch, a recipe that lacks something or names two tensors alike, and float16, which wants
/// its loss scaled; what the recipe's functions throw, as for a loss that reads values, of which
/// there are none.
TrainingPlan plan_training(Recipe recipe, const Budget& budget);

}  // namespace brim
