// A training within its plan: the account that holds the plan's bytes, and on it model, optimizer
// and step. `TrainingPlan::begin` makes one, for a loop of your own; `TrainingPlan::train` hands it
// over when it is done, with the model that was trained.
//
//   Training training = plan.begin();
//   while (std::optional<HostExamples> batch = source.next()) training.update(*batch, rate);
//
// What runs beside `update`, an evaluation say, is on the training's account within a
// `memory::AccountScope` of it.
#pragma once

#include <memory>

#include "brim/budget/example_source.h"
#include "brim/budget/recipe.h"
#include "brim/memory/account.h"
#include "brim/train/parts.h"
#include "brim/train/rehearsal.h"
#include "brim/train/train_step.h"

namespace brim {

class Training {
 public:
  ~Training();
  Training(Training&&) noexcept;
  Training& operator=(Training&&) = delete;

  /// One update of so many examples as the plan is for, in its micro-batches; returns the mean
  /// loss. Throws `ValueError` for a batch that is not as the recipe says, and what `TrainStep`
  /// throws; the training is then as it was.
  double update(const HostExamples& batch, double rate);

  /// The mean of the recipe's `score` over an epoch of the source, its first one, in evaluation
  /// mode and in parts as the plan has them. Throws `ValueError` for a recipe without a score, a
  /// source without examples, and batches that are not as the recipe says.
  double evaluate(ExampleSource& source);

  nn::Module& model();
  optim::Optimizer& optimizer();
  TrainStep& step();
  /// What it holds, and has held at the most (`stats`).
  const std::shared_ptr<memory::Account>& account() const;

 private:
  friend class TrainingPlan;
  double sum_of_scores(const Part& part, const HostExamples& batch);
  struct Parts;
  explicit Training(std::unique_ptr<Parts> parts);
  /// `plan` is of `rehearsal`, takes no more than `bytes`, and was made for a model of these
  /// tensors
  /// (`tensors_of`).
  static Training make(std::shared_ptr<const Recipe> recipe, const RehearsalOptions& rehearsal,
                       std::shared_ptr<const memory::Plan> plan, int64_t bytes,
                       const std::vector<std::string>& planned);

  std::unique_ptr<Parts> parts_;
};

/// "parameter conv1.weight [64,7,7,3]", ...: what two calls of a recipe have to agree in.
std::vector<std::string> tensors_of(const nn::Module& model);
/// "parameter a [3], where there was parameter b [3]"; "" where they agree.
std::string first_difference(const std::vector<std::string>& before,
                             const std::vector<std::string>& now);

/// A batch of the recipe's tensors on the device, with values where `from` has some: the examples
/// of `part`. `padded`: as many, where that is more; the last of them are then the first ones
/// again. Of category input.
Batch make_batch(const Recipe& recipe, const Part& part, Device device, const HostExamples* from,
                 int64_t padded = 0);

/// The recipe's score of a batch, without gradients. Throws `ShapeError` unless it is [examples].
Tensor score_of(const Recipe& recipe, nn::Module& model, const Batch& batch);

}  // namespace brim
