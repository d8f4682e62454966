// The training loop: epochs of updates over a source of batches, with evaluation after each, within
// the bytes that the device has at that moment. For classifiers of images: bytes in, cross entropy.
// Each batch of the source is one update, in micro-batches of what fits. For a loop of your own, or
// another loss, call `TrainStep` directly.
//
//   Trainer trainer(model, sgd, {source, &validation}, {.steps = 1000, .planner = "arena"});
//   trainer.on_epoch = [](const EpochReport& report) { ... };
//   trainer.run();
//
// Where the device loses bytes in the middle (`Source::set_capacity`), the training is planned
// again with more micro-batches of the same update, at the latest when a step runs out; where they
// come back, at the end of an epoch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brim/base/stop.h"
#include "brim/nn/module.h"
#include "brim/optim/optimizer.h"
#include "brim/train/batch_source.h"
#include "brim/train/checkpoint.h"
#include "brim/train/evaluate.h"
#include "brim/train/parts.h"
#include "brim/train/pruning.h"
#include "brim/train/replanning.h"
#include "brim/train/skip_history.h"
#include "brim/train/step_graph.h"
#include "brim/train/train_step.h"
#include "brim/train/trainer_options.h"
#include "brim/train/training_data.h"
#include "brim/train/training_loss.h"

namespace brim {

struct StepReport {
  int64_t step = 0;   ///< updates done or skipped, this one included
  int64_t epoch = 0;  ///< counted from 1
  double loss = 0;
  double rate = 0;
  /// `Optimizer::gradient_norm` of the update: before it was clipped by norm.
  std::optional<double> gradient_norm = {};
  double seconds = 0;  ///< of the whole step, the wait for its batch included
  int64_t images = 0;
  double scale = 1;                     ///< that the loss was multiplied by for backward
  std::optional<Skipped> skipped = {};  ///< nothing where the update was applied
};

struct EpochReport {
  int64_t epoch = 0;  ///< counted from 1
  double train_loss = 0;
  double seconds = 0;  ///< of its steps
  std::optional<Evaluation> validation = {};
  bool best = false;  ///< no epoch before it had as good an accuracy
};

/// What happened to memory in all runs so far.
struct TrainerCounts {
  int64_t out_of_memory = 0;  ///< steps and evaluations that ran out, and ran again
  int64_t replans = 0;        ///< the first plan of `TrainerOptions::planner` included
  int64_t violations = 0;     ///< steps begun with more reserved than the device had then
};

class Trainer {
 public:
  /// Throws `ValueError` for fewer steps than one; what `TrainStep` and `Pruning` throw. All that
  /// is handed over must outlive it.
  Trainer(nn::Module& model, optim::Optimizer& optimizer, const TrainingData& data,
          TrainerOptions options);

  std::function<void(const StepReport&)> on_step;
  EvaluationProgress on_evaluation;
  std::function<void(const EpochReport&)> on_epoch;
  /// After an epoch with the best accuracy so far, with the averages, if there are any, in the
  /// model's place: the moment to save the weights. Before `on_epoch`.
  std::function<void(const EpochReport&)> on_best;
  std::function<void(const ReplanReport&)> on_replan;
  /// After channels were removed by `TrainerOptions::pruning`; what follows of it for memory comes
  /// next, by `on_replan`.
  std::function<void(const PruneReport&)> on_prune;
  /// After a checkpoint was written.
  std::function<void(const std::string& path)> on_checkpoint;
  /// Asked after each update, and after each batch of an evaluation; true ends the run there, with
  /// a checkpoint if there is a folder. An evaluation begins anew in the run that goes on.
  std::function<bool()> should_stop;
  /// True writes a checkpoint, and the training goes on. Asked after each update, and after each
  /// batch of an evaluation, but not while averages are in the model's place.
  std::function<bool()> should_checkpoint;

  /// Brings the training to the newest checkpoint of `TrainerOptions::checkpoints`; `run` goes on
  /// from there with the same bits, or with other micro-batches up to rounding. Where `planner` is
  /// "arena", `run` then takes the plan that the checkpoint keeps, micro-batch included; where that
  /// is damaged, for another training or for other memory, it plans anew, and `on_replan` gets the
  /// reason. Throws what `Checkpoints::load_newest` throws.
  NewestCheckpoint resume();

  /// Trains in the mode that each module is in, and evaluates after each epoch, or when the steps
  /// run out in the middle of one. Errors, also those that the callbacks throw, leave the model as
  /// after the last committed step, and what was trained since the last checkpoint is written to
  /// one first, as long as all its numbers are finite. Throws `memory::OutOfMemory` where no
  /// micro-batch fits; `FileError` where a checkpoint cannot be written, with what went wrong
  /// before that; `ValueError` where an evaluation gives NaN, which says so where nearly all
  /// updates before it were skipped.
  ///
  /// Inside of a `StopScope` (base/stop.h) a run also ends where that asks for it: in the middle of
  /// a plan, an update or an evaluation, which is undone. It returns then, after a checkpoint.
  void run();

  /// Images on the device at once, as of now.
  int64_t micro_batch() const { return micro_batch_; }
  const TrainerCounts& counts() const { return counts_; }
  int64_t updates() const { return step_.updates(); }
  /// As of the last update or evaluation; of a run that was resumed, from the checkpoint on.
  const TrainingProgress& progress() const { return progress_; }
  int64_t skipped() const { return step_.skipped(); }
  /// That the next loss is multiplied by for backward.
  double loss_scale() const { return options_.scaler == nullptr ? 1 : options_.scaler->scale(); }
  /// What moves saved tensors to the host, with its account; null where nothing does.
  const autograd::Offload* offload() const { return step_.offload(); }
  /// Updates that were started from a graph, with `TrainerOptions::graph`.
  int64_t graph_updates() const { return graph_ ? graph_->replays() : 0; }
  /// Why the last one was not; "" where it was.
  const std::string& why_no_graph() const { return graph_ ? graph_->why_not() : why_no_graph_; }
  /// Whether the last run was told to stop before it was done.
  bool stopped() const { return stopped_; }

 private:
  void begin_plan();
  void run_epochs();
  void run_epoch();
  void run_steps();
  void end_epoch();
  void checkpoint();
  void checkpoint_if_asked();
  void checkpoint_before_leaving();
  void checkpoint_after_error();
  bool is_intact() const;
  StepReport run_step(const HostBatch& batch);
  TrainStep::LossFunction loss_of(const HostBatch& batch, const Part& part, double weight);
  MicroStepOptions part_options(const HostBatch& batch, const Part& part, double weight) const;
  double update(const HostBatch& batch, double rate);
  double run_parts(const HostBatch& batch, double rate, double weight);
  void make_graph();
  double watched_update(const HostBatch& batch, const StepReport& report);
  void validate(EpochReport& report, TrainingProgress& next);
  Evaluation evaluate_validation();
  bool is_done() const;
  bool is_told_to_stop() const {
    return (should_stop && should_stop()) || (stop_ != nullptr && (*stop_)());
  }
  TrainingState state() {
    return {model_, optimizer_, step_, options_.ema, /*may_shrink=*/pruning_.has_value()};
  }
  void let_batch_grow();
  void prune_if_due(const HostBatch& batch);
  std::optional<shrink::PruningPlan> pruning_plan(const HostBatch& batch);
  void replan(const std::string& why, const std::string& planner = "");
  void follow(ReplanReport report);
  template <class Work>
  auto surviving(const Work& work);

  nn::Module& model_;
  optim::Optimizer& optimizer_;
  TrainingData data_;
  TrainerOptions options_;
  std::vector<double> class_weights_;
  int64_t micro_batch_ = 0;
  TrainStep step_;
  std::unique_ptr<StepGraph> graph_;  // null where updates are not recorded
  std::string why_no_graph_;
  Replanning replanning_;
  std::optional<Pruning> pruning_;
  TrainerCounts counts_;
  TrainingProgress progress_;
  std::string kept_plan_;            // of the checkpoint that was resumed, until it runs
  const StopAsked* stop_ = nullptr;  // of this run
  bool stopped_ = false;
  bool is_unsaved_ = false;  // something was done since the last checkpoint
  SkipHistory skips_;
};

}  // namespace brim
