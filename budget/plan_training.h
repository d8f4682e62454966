// brim's promise as one call: name the bytes, and the training is planned before it begins, and
// never holds more.
//
//   TrainingPlan plan = plan_training(recipe, {.bytes = 2 * GiB, .batch = 64});
//   std::puts(plan.table().c_str());  // what was considered: bytes, time, verdict
//   if (plan.fits()) Training trained = plan.train(photos, {.epochs = 20});
//
// Recomputation, which leaves every number as it is, is chosen where it is needed; what changes
// numbers, or cannot be undone, is proposed in the table, for budget and recipe to ask for. Not to
// fit is an ordinary answer. On the CPU so far; for images with checkpoints and replanning there is
// `Trainer` (train/trainer.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brim/base/byte_units.h"
#include "brim/budget/example_source.h"
#include "brim/budget/recipe.h"
#include "brim/budget/training.h"
#include "brim/optim/schedule.h"
#include "brim/train/ladder.h"
#include "brim/train/rehearsed_plan.h"

namespace brim {

struct Budget {
  int64_t bytes = 0;        ///< of tensors and scratch, never to be exceeded
  int64_t batch = 0;        ///< examples of an update; 0: the most that fit, up to `most_batch`
  int64_t micro_batch = 0;  ///< of them at once, the last part smaller; 0: all
  int64_t most_batch = 4096;
  /// Whether what else is only proposed may be chosen, where it takes the least time of what fits:
  /// other numbers (bfloat16, micro-batches), an update that cannot be undone.
  bool take_proposals = false;
};

struct EpochOptions {
  int64_t epochs = 1;
  optim::Schedule schedule = optim::ConstantSchedule{};  ///< of the rate, by update
  /// After each update: how many there were, and its loss.
  std::function<void(int64_t update, double loss)> on_update = {};
  /// After each epoch, of which there were so many: to evaluate, or to save what was learnt.
  std::function<void(int64_t epoch, Training& training)> on_epoch = {};
};

class TrainingPlan {
 public:
  bool fits() const { return ladder_.chosen.has_value(); }
  /// What was considered, a line each: remedies, bytes, time relative to what was asked for, and
  /// whether it fits.
  std::string table() const { return to_table(ladder_); }
  /// The same with the numbers. The first line is what was asked for.
  const LadderResult& considered() const { return ladder_; }
  /// The plan of another line of the table, from 0, of those that fit: what is only proposed,
  /// taken. Throws `ValueError` for one that does not fit.
  TrainingPlan take(size_t line) const;
  /// "" where it fits; else what a step takes, and what would fit or needs least.
  std::string why_not() const;
  /// What was chosen: none where it fits as it was asked for.
  const std::vector<std::string>& remedies() const { return rung().remedies; }
  int64_t batch() const { return rung().setup.rehearsal.update_images(); }
  int64_t micro_batch() const { return rung().setup.rehearsal.batch; }
  /// Of products: float32 or bfloat16.
  Dtype precision() const { return rung().setup.rehearsal.trainer.precision; }
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
  /// one, a source whose epoch has no whole batch, and a smaller batch that is not its last.
  Training train(ExampleSource& source, const EpochOptions& options = {}) const;

  /// Keeps it in a file, for `load_training_plan`. Throws `ValueError` where it does not fit,
  /// `FileError` where the file cannot be written.
  void save(const std::string& path) const;

 private:
  friend TrainingPlan plan_training(Recipe recipe, const Budget& budget);
  friend TrainingPlan load_training_plan(Recipe recipe, const std::string& path);
  TrainingPlan() = default;
  /// Packs the plan of what was chosen, if anything was.
  void place_buffers();
  /// The source's next one; nothing at the end, where a smaller one may be left.
  std::optional<HostExamples> whole_batch(ExampleSource& source, int64_t epoch) const;
  /// What was chosen, else what was asked for.
  const Rung& rung() const { return ladder_.considered[ladder_.chosen.value_or(0)]; }

  std::shared_ptr<const Recipe> recipe_;
  Budget budget_;
  LadderResult ladder_;
  std::shared_ptr<const memory::Plan> plan_;  // null where it does not fit
  std::vector<std::string> tensors_;          // of the model that it is for
};

/// Plans without a byte. Throws `ValueError` for a budget below 1, a batch below 0, a micro-batch
/// beyond the batch, a recipe that lacks something or names two tensors alike, and float16, which
/// wants its loss scaled; what the recipe's functions throw, as for a loss that reads values, of
/// which there are none.
TrainingPlan plan_training(Recipe recipe, const Budget& budget);

/// A plan that was kept, without the search: one rehearsal shows that the recipe still asks for
/// what was planned. Throws `FileError` with the reason where the file is damaged or of another
/// version, or the plan is for another model, batch, loss, number of threads, instruction set or
/// version of a library; what the recipe's functions throw.
TrainingPlan load_training_plan(Recipe recipe, const std::string& path);

}  // namespace brim
