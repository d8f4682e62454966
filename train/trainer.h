// The training loop: epochs of training steps over a source of batches, with evaluation after each.
// For classifiers of images: bytes in, cross entropy, one micro-step an update; it neither
// accumulates gradients nor writes checkpoints. For a loop of your own, or another loss, call
// `TrainStep` directly: this is little more.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "brim/data/device_batch.h"
#include "brim/nn/module.h"
#include "brim/optim/optimizer.h"
#include "brim/optim/schedule.h"
#include "brim/train/batch_source.h"
#include "brim/train/evaluate.h"
#include "brim/train/mix.h"
#include "brim/train/remedies.h"
#include "brim/train/train_step.h"

namespace brim {

struct TrainerOptions {
  /// Updates in all; epochs follow each other until they are done.
  int64_t steps = 0;
  uint64_t seed = 0;
  optim::Schedule schedule = optim::ConstantSchedule{};
  double label_smoothing = 0;
  /// mixup and CutMix; which of them, and in which shares, follows from the seed and the update.
  MixOptions mix = {};
  InputOptions input = {};
  optim::ClipOptions clip = {};
  /// Averages that each update moves, and that are evaluated in place of the weights; or null.
  optim::Ema* ema = nullptr;
};

/// The loss of a batch on the device that a step of `Trainer` differentiates: a scalar. With
/// `options.mix` the batch's images are changed in place. It is the mean over the images whose
/// labels are not ignored; with `options.mix` the sum, in which an ignored label counts for nothing
/// in either image of its pair, is divided by the number of all images.
Tensor training_loss(nn::Module& model, data::DeviceBatch batch, const TrainerOptions& options);

struct StepReport {
  int64_t step = 0;   ///< updates done, this one included
  int64_t epoch = 0;  ///< counted from 1
  double loss = 0;
  double rate = 0;
  /// `Optimizer::gradient_norm` of the update: before it was clipped by norm.
  std::optional<double> gradient_norm = {};
  double seconds = 0;  ///< of the whole step, the wait for its batch included
  int64_t images = 0;
};

struct EpochReport {
  int64_t epoch = 0;  ///< counted from 1
  double train_loss = 0;
  double seconds = 0;  ///< of its steps
  std::optional<Evaluation> validation = {};
};

class Trainer {
 public:
  /// Throws `ValueError` for fewer steps than one; what `TrainStep` throws.
  Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options);

  std::function<void(const StepReport&)> on_step;
  EvaluationProgress on_evaluation;
  std::function<void(const EpochReport&)> on_epoch;
  /// Predicts what training with a batch will hold, for the error of a step that runs out of
  /// memory: it then names a smaller batch that fits.
  PlanBatch plan_batch;

  /// Trains in the mode that each module is in, and evaluates on `validation` (may be null) after
  /// each epoch, or when the steps run out in the middle of one. Errors leave the model as after
  /// the last committed step.
  void run(BatchSource& training, data::Loader* validation);

 private:
  void run_epoch(BatchSource& training, data::Loader* validation, int64_t epoch);
  StepReport run_step(const HostBatch& batch);
  double update(const HostBatch& batch, double rate);

  nn::Module& model_;
  TrainerOptions options_;
  optim::Optimizer& optimizer_;
  TrainStep step_;
};

}  // namespace brim
