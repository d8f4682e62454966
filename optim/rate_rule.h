// The learning rate for another batch than the one that a recipe was made for: in proportion, by
// the square root, or as it is. The batch is that of an update, all micro-steps together: a smaller
// micro-batch with the same images an update changes nothing. Rules of thumb: they hold while the
// batch is small against the data, so look at the loss where the factor is large. Rates over time
// are schedules (schedule.h).
#pragma once

#include <cstdint>
#include <string>

namespace brim::optim {

enum class RateRule {
  none,
  /// rate * batch / recipe.batch, for SGD: Goyal et al., "Accurate, Large Minibatch SGD", 2017.
  linear,
  /// rate * sqrt(batch / recipe.batch), for Adam: Krizhevsky, "One weird trick for parallelizing
  /// convolutional neural networks", 2014 (the variance of an update stays), and Malladi et al.,
  /// "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms", NeurIPS 2022, whose rule
  /// moves betas and epsilon too; here they stay.
  square_root,
};

/// "none", "linear" or "sqrt".
std::string to_string(RateRule rule);
/// Of these names; throws `ValueError` with the nearest one otherwise.
RateRule rate_rule_named(const std::string& name);

/// What a training was tuned with.
struct RateRecipe {
  double rate = 0.1;   ///< the largest of its schedule
  int64_t batch = 0;   ///< images of an update
  int64_t warmup = 0;  ///< updates
};

struct ScaledRate {
  double rate = 0;
  int64_t warmup = 0;  ///< updates
};

/// The recipe for updates of `batch` images. Under every rule the warm-up sees as many images as in
/// the recipe, rounded up to a whole update. Throws `ValueError` for a rate that is not positive
/// and finite, batches below 1, and a warm-up that is negative or has more than 2^63 - 1 images.
ScaledRate scale_rate(const RateRecipe& recipe, int64_t batch, RateRule rule);

/// "rate 0.2: 0.1 at batch 64, in proportion (linear)". Throws as `scale_rate`.
std::string describe(const RateRecipe& recipe, int64_t batch, RateRule rule);

}  // namespace brim::optim
