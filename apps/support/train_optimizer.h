// How `train` updates the weights: the flags of optimizer, decay, clipping, averaging and freezing,
// and what they make. Defaults are those of the model's recipe (nn/models/training_recipe.h), or,
// of another optimizer than the recipe's, that optimizer's usual ones: call `check_optimizer_flags`
// after parsing. A program of your own fills in `optim::SgdOptions` or `optim::AdamWOptions`
// itself.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brim/brim.h"
#include "brim/apps/support/app.h"
#include "brim/nn/models/training_recipe.h"

namespace brim::apps {

struct OptimizerFlags {
  std::string name;  ///< "sgd" or "adamw"; "" for that of the recipe
  double rate = 0;   ///< 0: that of the recipe, times
  double share_of_usual = 1;
  /// Images of an update that `rate` and the warm-up are meant for; 0: those of the run for what is
  /// given.
  int64_t recipe_batch = 0;
  std::string rate_rule;               ///< "linear", "sqrt" or "none"; "" for that of the optimizer
  std::optional<double> momentum;      ///< of sgd; adamw has none
  std::optional<double> weight_decay;  ///< none for that of the recipe
  std::vector<std::string> no_decay;   ///< "norm", "bias"
  optim::ClipOptions clip = {};
  double ema = 0;                  ///< the decay of averages; 0 for none
  std::string state_text = "f32";  ///< or "bf16"
  uint64_t seed = 0;               ///< of roundings; the run's
  std::vector<std::string> freeze;
  nn::TrainingRecipe recipe;  ///< what the flags leave open; see `check_optimizer_flags`
};

/// Declares the flags; `flags` must outlive the parsing.
void add_optimizer_flags(App& app, OptimizerFlags& flags);

/// Fills in defaults, from the recipe of the model. Throws `ValueError` naming a bad value.
void check_optimizer_flags(OptimizerFlags& flags, const nn::TrainingRecipe& recipe);

/// What the flags come to where an update has `batch` images and the recipe so long a warm-up.
optim::ScaledRate rate_for(const OptimizerFlags& flags, int64_t batch, int64_t warmup);

/// Freezes what the flags name, then makes optimizer and averages of the rest, so load weights
/// before. Throws `ValueError` with the nearest name where there is nothing to freeze.
Updating make_updating(const OptimizerFlags& flags, nn::Module& model);

/// "adamw: rate 0.001, weight decay 0.01 but for norm, bias; gradients clipped to norm 1", after
/// `make_updating`, for `batch` images an update; with the rule where that has changed the rate.
std::string describe(const OptimizerFlags& flags, int64_t batch, int64_t warmup,
                     const nn::Module& model);

}  // namespace brim::apps
