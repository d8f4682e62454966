// One update of a model with all its micro-steps: the unit that can be undone. It begins with
// empty gradients. Parameters, optimizer state, running statistics and random counters change
// only in `commit`, which neither allocates nor throws; until then any failure, running out of
// memory included, leaves everything as it was, and the step can be run again with the same bits.
//
//   TrainStep step(model, optimizer, {.seed = 1});
//   for (...) double loss = step.run(rate, [&] { return cross_entropy(model(images), labels); });
//
// With a loss scaler an update that overflows is no failure: it is skipped, the scale backs off,
// and `outcome` says so and where the overflow began.
//
// With gradient accumulation, call begin(), micro_step() for each part, prepare(), commit(). Each
// of them undoes the whole step before it throws; what follows is then a new `begin`.
//
// `fused_update` gives the promise up for memory: parameters change during backward.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brim/autograd/offload.h"
#include "brim/memory/account.h"
#include "brim/nn/module.h"
#include "brim/optim/ema.h"
#include "brim/optim/loss_scaler.h"
#include "brim/optim/optimizer.h"
#include "brim/train/offload_options.h"
#include "brim/train/recompute_options.h"
#include "brim/train/step_outcome.h"

namespace brim {

struct BackwardOptions;
struct NonFinite;
class StepGraph;

struct TrainStepOptions {
  /// Of the random numbers that ops draw (dropout).
  uint64_t seed = 0;
  /// Limits on the gradients of the whole update, all micro-steps added up.
  optim::ClipOptions clip = {};
  /// Averages to move in `commit`; null for none. They must outlive the step.
  optim::Ema* ema = nullptr;
  /// Update each parameter during backward, as soon as its gradient is complete, and free the
  /// gradient: they are never all held at once. The same bits as without. For one micro-step an
  /// update, so only by `run`; not with `clip.norm`. What fails before the first parameter was
  /// updated is undone as ever. After it nothing can be: `run` then throws `TornUpdate`. So the
  /// step's bytes must be reserved before it begins: train under `memory::arena_planner` with a
  /// plan of this step (train/rehearsed_plan.h), rehearsed with the same option.
  bool fused_update = false;
  /// float16 or bfloat16: forward runs in mixed precision (ops/autocast.h).
  Dtype precision = Dtype::float32;
  /// What gradients of float32 parameters are kept in from the end of their backward to the update:
  /// float32, or bfloat16, to which each part's are rounded, and so is their sum; all are stored
  /// then (see `MicroStepOptions::factors`).
  Dtype gradients = Dtype::float32;
  /// Multiplies the loss for backward, and skips updates that overflow, for float16; null for
  /// none. It must outlive the step.
  optim::LossScaler* scaler = nullptr;
  /// Elementwise ops write over inputs that nobody can read any more (autograd/in_place.h): the
  /// same bits in fewer bytes.
  bool in_place = true;
  /// What is dropped and made again for backward: of each forward pass.
  RecomputeOptions recompute = {};
  /// Whether what `recompute` offloads goes to the host.
  OffloadOptions offload = {};
  /// Room for the numbers that a recorded update reads (train/step_graph.h).
  bool graph = false;
};

/// A fused update failed after parameters had changed: some are those of the next update, others
/// those of the last. With the cause nested (`std::rethrow_if_nested`).
class TornUpdate : public Error {
 public:
  using Error::Error;
};

struct MicroStepOptions {
  /// Share of this part's loss in the update's: its samples over all samples.
  double weight = 1;
  /// Position of its first sample in the update.
  uint64_t first_sample = 0;
  /// Its samples; parts with as many ask for the same bytes in the same order, which is how a plan
  /// knows them. 0 for parts that are all alike.
  int64_t samples = 0;
  /// Samples of the whole update. Running statistics of batch norm then move once an update,
  /// towards the mean and variance of all its samples in that layer (nearly, where a layer runs
  /// more than once in a part). 0: they move in each part, as in PyTorch.
  int64_t update_samples = 0;
  /// In `run`, gradients of weights that meet few pixels may stay factors until the update
  /// (autograd/gradient_factors.h): the same bits from fewer bytes. Not where parts of as many
  /// samples come by `micro_step` too, which stores all: a plan would not know them apart.
  bool factors = true;
};

class TrainStep {
 public:
  /// Computes the loss, a scalar. It may run more than once for a step.
  using LossFunction = std::function<Tensor()>;

  /// Takes shadow copies of the buffers of modules in training mode, once and for all steps:
  /// others, those of frozen modules for one, do not change. Model and optimizer must outlive the
  /// step; parameters and buffers are those that the model has now. Throws `ValueError` for another
  /// `precision` than float32 and the half types, for `gradients` other than float32 and bfloat16,
  /// and for `fused_update` with `clip.norm`, `gradients` or a `scaler`, `DeviceError` for
  /// `offload` from a device that brim cannot copy from beside its work.
  TrainStep(nn::Module& model, optim::Optimizer& optimizer, TrainStepOptions options = {});

  /// A whole update in one micro-step; returns the loss. With `fused_update`, a loss that is not
  /// finite is found before backward; throws `TornUpdate` for what fails after the first parameter
  /// was updated, a gradient that is not finite for one. From then on so does every `begin`, until
  /// `set_updates`.
  double run(double rate, const LossFunction& loss, const MicroStepOptions& options = {});

  /// Drops gradients, forgets effects and overflows that were not committed. The planner of the
  /// parameters' device is told that a step begins; `commit` and `undo` tell it that it ended.
  /// Throws `ValueError` where a module with buffers was put into training mode since this was made
  /// (there are no shadows for them), inside an `EmaScope` of its averages, and for `fused_update`
  /// off the meta device where no plan is followed.
  void begin();
  /// Forward and backward of one part; returns its loss, unweighted. After it comes `prepare`, also
  /// where there was one before. A loss that is NaN or infinite throws `ValueError` naming the
  /// first module and op whose result was not finite, found by running the part once more under
  /// observation. Outside of a step, that is without `begin` or after a failure, it throws
  /// `ValueError`, and so does `prepare`; with `fused_update` both always do. So it does for a part
  /// that is not within `update_samples`.
  ///
  /// With a scaler, a loss or a gradient that is not finite loses the whole update instead: the
  /// parts after it run nothing and return NaN, and `prepare` skips.
  double micro_step(const LossFunction& loss, const MicroStepOptions& options = {});
  /// Checks the gradients, finds how far they are clipped (`Optimizer::gradient_norm` tells their
  /// norm) and sets the learning rate. The last thing that can fail. With a scaler it may find
  /// that the update is to be skipped: it has ended then, and `commit` does nothing. Throws
  /// `ValueError`, naming the module, where gradients overflow at the scaler's floor, and, naming
  /// the parameter, for one that is not finite without a scaler.
  const StepOutcome& prepare(double rate);
  /// Updates parameters, optimizer state, buffers and averages, counts the update, drops the
  /// gradients. Does nothing when nothing was prepared.
  void commit() noexcept;
  /// Drops gradients and effects. Parameters, optimizer state and buffers are as before `begin`.
  void undo() noexcept;

  /// Did a part of the update under way overflow, so that it will be skipped?
  bool is_lost() const { return overflow_.has_value(); }
  /// Did a fused update fail half-way, so that parameters are neither as before nor as after it?
  bool is_torn() const { return !torn_.empty(); }
  /// What became of the last update that was prepared.
  const StepOutcome& outcome() const { return outcome_; }
  /// Updates committed so far: the number that schedules see.
  int64_t updates() const { return updates_; }
  /// Updates that were skipped.
  int64_t skipped() const { return skipped_; }
  /// Both: the number that random ops see.
  int64_t attempts() const { return updates_ + skipped_; }
  /// Null for none.
  optim::LossScaler* scaler() const { return options_.scaler; }
  /// What moves saved tensors to the host; null where nothing does.
  const autograd::Offload* offload() const { return offload_.get(); }
  /// For a step that goes on from a checkpoint. Says of a torn update that parameters and the
  /// optimizer's state were put back.
  void set_updates(int64_t updates, int64_t skipped = 0);

  /// Between updates, after the model's tensors became smaller (`shrink::remove_channels`): makes
  /// the shadow copies like them. Throws `memory::OutOfMemory`; nothing has changed then.
  void renew_shadows();

 private:
  friend class StepGraph;

  /// Calls `part`; when it throws, undoes the step first.
  template <class Part>
  auto or_undo(const Part& part) {
    try {
      return part();
    } catch (...) {
      undo();
      throw;
    }
  }
  void require_ready() const;
  void require_begun() const;
  void require_apart() const;
  class Saving;
  Tensor forward(const LossFunction& loss, const MicroStepOptions& options, const Saving& saving);
  Tensor forward_checked(const LossFunction& loss, const MicroStepOptions& options,
                         const Saving& saving);
  void backward_of(const Tensor& result, const MicroStepOptions& options);
  using OnFactors = std::function<void(const Tensor& leaf, const autograd::GradientFactors&)>;
  void ask_for_factors(BackwardOptions& how, OnFactors on_factors) const;
  Tensor gradient_of(const Tensor& result, const MicroStepOptions& options) const;
  double value_of(const Tensor& loss) const;
  double run_part(const LossFunction& loss, const MicroStepOptions& options);
  double forward_backward(const LossFunction& loss, const MicroStepOptions& options);
  std::optional<std::string> prepare_update(double rate);
  double run_whole(double rate, const LossFunction& loss, const MicroStepOptions& options);
  void note_overflow(const LossFunction& loss, const MicroStepOptions& options,
                     const std::optional<std::string>& parameter);
  std::optional<NonFinite> observe(const LossFunction& loss, const MicroStepOptions& options);
  std::optional<NonFinite> observe_again(const LossFunction& loss, const MicroStepOptions& options);
  void note_lost_sum(const std::string& parameter);
  void skip();
  double run_fused(double rate, const LossFunction& loss, const MicroStepOptions& options);
  double forward_backward_update(double rate, const LossFunction& loss,
                                 const MicroStepOptions& options);
  void finish() noexcept;
  [[noreturn]] void tear(int64_t pieces);
  [[noreturn]] void explain(const LossFunction& loss, const MicroStepOptions& options,
                            double value);

  Device device() const;
  void drop_gradients() noexcept;
  void begin_planner_step(std::shared_ptr<memory::Account> account);
  void end_planner_step() noexcept;

  optim::Optimizer& optimizer_;
  TrainStepOptions options_;
  std::vector<Tensor> parameters_;
  std::unique_ptr<autograd::Offload> offload_;
  Tensor live_;                                     // LiveNumber; undefined without `graph`
  StepGraph* recorder_ = nullptr;                   // while the update is recorded
  std::vector<std::pair<Tensor, Tensor>> shadows_;  // buffer, and where effects on it go
  std::vector<std::string> shadowed_;               // names of those buffers
  std::vector<std::pair<std::string, const nn::Module*>> unshadowed_;  // a buffer, and its module
  std::shared_ptr<memory::Account> account_;    // told of the step under way; null between steps
  std::optional<memory::SectionScope> update_;  // from prepare to the end of the step
  bool first_ = true;                           // is the next micro-step the first of the update?
  memory::Section part_;                        // the last one's
  bool takes_factors_ = false;                  // may gradients stay factors?
  std::optional<Skipped> overflow_;             // of the update under way
  StepOutcome outcome_;
  int64_t updates_ = 0, skipped_ = 0;
  std::string torn_;  // what is wrong since an update was torn; "" for nothing
};

}  // namespace brim
