// How `Trainer` trains (train/trainer.h): every choice but the number of steps has a default that
// does no harm. What `training_loss` and a rehearsal need of it too, so it stands by itself.
#pragma once

#include <string>

#include "brim/core/tensor.h"
#include "brim/optim/schedule.h"
#include "brim/train/input.h"
#include "brim/train/mix.h"
#include "brim/train/offload_options.h"
#include "brim/train/pruning.h"
#include "brim/train/train_step.h"

namespace brim {

class Checkpoints;
class NumericsWatch;
class Profile;

struct TrainerOptions {
  /// Updates in all, those that are skipped counted; epochs follow each other until they are done.
  int64_t steps = 0;
  uint64_t seed = 0;
  optim::Schedule schedule = optim::ConstantSchedule{};
  double label_smoothing = 0;
  /// [classes], of the logits' dtype, on the input's device: what each class weighs, as in
  /// `CrossEntropyOptions`. Undefined: all weigh 1.
  Tensor class_weights = {};
  /// mixup and CutMix; which of them, and in which shares, follows from the seed and the update.
  /// Pairs are made within a micro-batch.
  MixOptions mix = {};
  InputOptions input = {};
  optim::ClipOptions clip = {};
  /// Averages that each update moves, and that are evaluated in place of the weights; or null.
  optim::Ema* ema = nullptr;
  /// Images on the device at once. Each batch of the source is one update, and runs in parts of so
  /// many, the last one smaller. 0: the whole batch, or with `planner` the most that fit.
  int64_t micro_batch = 0;
  /// Plans the training for the device's capacity before it begins, and moves what there is to the
  /// planner of that name: "arena", "caching" or "direct". "": the account stays as it is.
  std::string planner = {};
  /// Updates parameters during backward, as `TrainStepOptions::fused_update`: for updates in one
  /// part under an arena, which then cannot be undone.
  bool fused_update = false;
  /// Of forward, as `TrainStepOptions::precision`; in evaluations too.
  Dtype precision = Dtype::float32;
  /// As `TrainStepOptions::gradients`.
  Dtype gradients = Dtype::float32;
  /// As `TrainStepOptions::scaler`: for float16. It must outlive the training.
  optim::LossScaler* scaler = nullptr;
  /// Looks at the numbers of some updates (train/numerics_watch.h); null for none. It must outlive
  /// the training.
  NumericsWatch* watch = nullptr;
  /// Times the launches of some updates (train/profile.h), but not of those that `watch` looks at;
  /// null for none. It must outlive the training.
  Profile* profile = nullptr;
  /// Elementwise ops write in place, as `TrainStepOptions::in_place`; in evaluations too.
  bool in_place = true;
  /// What is dropped and made again for backward: the same numbers in fewer bytes, and more time.
  RecomputeOptions recompute = {};
  /// Whether what `recompute` offloads goes to the host, and how much of it.
  OffloadOptions offload = {};
  /// Records updates and starts them again (train/step_graph.h), where they follow a plan:
  /// with the planner "arena". What cannot be recorded runs as it is, and `Trainer::why_no_graph`
  /// says why.
  bool graph = false;
  /// Channels that go while the training runs (train/pruning.h); nothing for none.
  std::optional<PruningOptions> pruning = {};
  /// Added to the mean loss of each update: this times the sum of the magnitudes of all batch
  /// norms' scales (train/scale_penalty.h). From 0; 1e-4 is usual.
  double scale_penalty = 0;
  /// Where checkpoints are kept: at the end of each epoch, when a run is told to stop, and before
  /// an error leaves it; null for none.
  Checkpoints* checkpoints = nullptr;
  /// And after so many updates each; 0: no more than that.
  int64_t checkpoint_every = 0;
  /// Ends the training when the accuracy has not become better for so many epochs; 0: never.
  int64_t early_stop = 0;
};

/// Does pruning look at gradients between updates?
inline bool wants_gradients(const TrainerOptions& options) {
  return options.pruning && options.pruning->channels.criterion == shrink::Criterion::taylor;
}

/// `MicroStepOptions::factors` of such a training, in parts of `micro_batch` images.
inline bool takes_factors(const TrainerOptions& options, int64_t micro_batch,
                          int64_t update_images) {
  return micro_batch >= update_images && !wants_gradients(options);
}

/// The step that such a training takes; with `ema` in place of that of `options`.
inline TrainStepOptions step_options(const TrainerOptions& options, optim::Ema* ema) {
  return {.seed = options.seed,
          .clip = options.clip,
          .ema = ema,
          .fused_update = options.fused_update,
          .precision = options.precision,
          .gradients = options.gradients,
          .scaler = options.scaler,
          .in_place = options.in_place,
          .recompute = options.recompute,
          .offload = options.offload,
          .graph = options.graph};
}
inline TrainStepOptions step_options(const TrainerOptions& options) {
  return step_options(options, options.ema);
}

}  // namespace brim
