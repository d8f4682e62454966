// A training run without a byte: the updates and evaluations that `Trainer::run` would make, on the
// meta device, as far as they differ from each other in what they ask of memory. Hand `rehearse` to
// `measure_on_meta` or `plan_on_meta` (step_memory.h, rehearsed_plan.h). For a loop of your own,
// write its steps in a function of your own; these two take any.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "brim/nn/module.h"
#include "brim/optim/optimizer.h"
#include "brim/train/op_times.h"
#include "brim/train/trainer_options.h"

namespace brim {

/// What a training has beside its model.
struct Updating {
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Ema> ema;  ///< null for none
};

struct RehearsalOptions {
  /// Called while new modules are on the meta device, and of type `parameters` (nn/creation.h).
  std::function<std::shared_ptr<nn::Module>()> make_model;
  std::function<Updating(nn::Module&)> make_updating;
  TrainerOptions trainer;  ///< `ema` and `micro_batch` are not looked at
  /// bfloat16: a model that was made in another type all the same is converted, and both are
  /// counted while it is.
  Dtype parameters = Dtype::float32;
  int size = 0;             ///< of the images, in pixels
  int64_t batch = 0;        ///< images on the device at once
  int64_t updates = 1;      ///< in an epoch, whole ones
  int64_t last_update = 0;  ///< images of a smaller one at its end; 0 for none
  /// Images of an update, in micro-steps of `batch`, the last one smaller; 0 for one micro-step.
  int64_t effective_batch = 0;
  int64_t evaluated = 0;  ///< images evaluated after each epoch; 0 for no evaluation
  /// Images of one batch of the loader of evaluation, which run in parts of `batch`; 0: `batch`.
  int64_t evaluation_batch = 0;
  /// The loss of so many images, where it is not `training_loss` of square ones: a class for every
  /// pixel, say. The model is on the meta device, and so must its batch be. `size`, and what
  /// `trainer` says of input and loss, are then not looked at; evaluation is `score`.
  std::function<Tensor(nn::Module& model, int64_t images)> loss = {};
  /// What an evaluation computes of so many images beside such a `loss`: after each epoch in parts
  /// of `batch`, all whole.
  std::function<void(nn::Module& model, int64_t images)> score = {};
  /// How long its ops take, for who chooses between ways of running it; nominal by default.
  OpTimes op_times = {};

  int64_t update_images() const { return std::max(batch, effective_batch); }
  /// A training of one update of so many images, where they are more than `batch`; else, and by
  /// default, of one micro-step.
  RehearsalOptions one_update(int64_t images = 0) const;
};

/// The model of the rehearsed training, without bytes.
std::shared_ptr<nn::Module> model_on_meta(const RehearsalOptions& options);

/// What the bytes of the rehearsed training follow from, beside the model and what updates it: the
/// part of a plan's identity that any training has.
std::string plan_identity(const RehearsalOptions& options);

/// Builds model and optimizer, calls `state_is_held`, and runs two epochs of at most three updates
/// and as many batches of evaluation as differ. A planner's state settles within that. Throws
/// `ValueError` for an evaluation beside a `loss`.
void rehearse(const RehearsalOptions& options, const std::function<void()>& state_is_held);

}  // namespace brim
