// Pruning in the middle of a training: channels of the model, and what belongs to them of optimizer
// and averages, are removed between two updates. `Trainer` does it by `TrainerOptions::pruning`,
// and plans its memory again afterwards; for a trained model see shrink/prune.h.
#pragma once

#include <cstdint>
#include <optional>

#include "brim/optim/ema.h"
#include "brim/optim/optimizer.h"
#include "brim/shrink/prune.h"
#include "brim/shrink/prune_schedule.h"

namespace brim {

struct PruningOptions {
  shrink::PruneSchedule schedule = {};
  /// By which channels go. `taylor` looks at the gradients of the update's batch, before it is
  /// trained on. First shapes are by default those of the model that the trainer gets.
  shrink::PruneOptions channels = {};
  /// What is to become less; null: FLOPs.
  shrink::Cost cost = nullptr;
  /// What that was before the first pruning; by default, of the model that the trainer gets.
  std::optional<double> before = {};
  /// From the first pruning on, micro-batches grow into the bytes that become free, beyond the
  /// trainer's own, up to all images of an update at once.
  bool batch_may_grow = false;
};

struct PruneReport {
  int64_t step = 0;             ///< updates done before it
  double cost = 0, before = 0;  ///< as of now, and before the first
  double removed = 0;           ///< share of the channels that could go
  int64_t parameters = 0;       ///< elements that are left
};

/// What `Trainer` asks at the begin of each update.
class Pruning {
 public:
  /// `input` is the shape of the model's input. Throws `ValueError` for options out of range, and
  /// where the schedule's target cannot be had of this model.
  Pruning(nn::Module& model, const Shape& input, const PruningOptions& options);

  /// Is there something to remove after so many updates?
  bool is_due(int64_t updates) const { return options_.schedule.at(updates).has_value(); }
  bool wants_gradients() const { return options_.channels.criterion == shrink::Criterion::taylor; }
  /// What goes after so many updates: gradients are looked at where they are wanted. Nothing where
  /// the model takes no more by now.
  std::optional<shrink::PruningPlan> plan(int64_t updates) const;
  PruneReport report(int64_t updates, const shrink::PruningPlan& plan) const;

 private:
  nn::Module& model_;
  Shape input_;
  PruningOptions options_;
  double before_ = 0;
};

/// The tensors that have the shapes of a model's: an optimizer's state, and averages where there
/// are any.
std::vector<nn::NamedTensor> state_of(const optim::Optimizer& optimizer, const optim::Ema* ema);

}  // namespace brim
