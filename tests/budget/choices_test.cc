// What a budget may leave open: the batch, and what changes numbers; and optimizers of parts.
#include <doctest/doctest.h>

#include "brim/budget/plan_training.h"
#include "brim/optim/combined.h"
#include "brim/tests/budget/recipes.h"

using namespace brim;
using namespace brim::testing;

namespace {

/// Trains four updates, which have to hold what was predicted.
void train(const Recipe& recipe, const TrainingPlan& plan, int64_t bytes) {
  REQUIRE_MESSAGE(plan.fits(), plan.table());
  RandomSource source(recipe, plan.batch(), 4);
  Training trained = plan.train(source, {.schedule = optim::ConstantSchedule{.rate = 1e-3}});
  const memory::AccountStats held = trained.account()->stats();
  CHECK(held.peak_reserved == plan.predicted().peak_reserved);
  CHECK(held.peak_reserved <= bytes);
  CHECK(held.mismatches == 0);
}

}  // namespace

TEST_CASE("budget: the batch that is left open is the largest that fits with all kept") {
  for (const Recipe& recipe : {segmentation(16), classifier("resnet20", 16)}) {
    const int64_t bytes = 12 * MiB;
    const TrainingPlan plan = plan_training(recipe, {.bytes = bytes});
    CHECK(plan.remedies().empty());
    train(recipe, plan, bytes);
    const TrainingPlan more = plan_training(recipe, {.bytes = bytes, .batch = plan.batch() + 1});
    CHECK((!more.fits() || !more.remedies().empty()));
    CHECK(plan_training(recipe, {.bytes = bytes, .most_batch = 3}).batch() == 3);
  }
  CHECK_FALSE(plan_training(segmentation(16), {.bytes = 1024}).fits());
}

TEST_CASE("budget: proposals are taken where that is asked for, and hold what was predicted") {
  const Recipe recipe = segmentation();
  const int64_t peak =
      plan_training(recipe, {.bytes = 1024 * MiB, .batch = 16}).predicted().peak_reserved;
  int took = 0;
  for (const double share : {0.7, 0.5, 0.35, 0.25, 0.18}) {
    CAPTURE(share);
    const auto bytes = static_cast<int64_t>(static_cast<double>(peak) * share);
    const TrainingPlan kept = plan_training(recipe, {.bytes = bytes, .batch = 16});
    const TrainingPlan plan =
        plan_training(recipe, {.bytes = bytes, .batch = 16, .take_proposals = true});
    CAPTURE(plan.table());
    if (kept.fits()) CHECK(plan.relative_time() <= kept.relative_time() + 0.002);
    if (!plan.fits()) continue;
    train(recipe, plan, bytes);
    took += plan.precision() == Dtype::bfloat16 || plan.micro_batch() < 16;
  }
  CHECK(took > 0);
}

TEST_CASE("budget: optimizer state in bfloat16 is taken too") {
  // Nearly all that it holds are parameters, gradients and averages.
  Recipe recipe = regression();
  const int64_t peak =
      plan_training(recipe, {.bytes = 1024 * MiB, .batch = 1}).predicted().peak_reserved;
  const TrainingPlan plan =
      plan_training(recipe, {.bytes = peak * 8 / 10, .batch = 1, .take_proposals = true});
  train(recipe, plan, peak * 8 / 10);
  CHECK_FALSE(plan.remedies().empty());
}

TEST_CASE("budget: a model with two optimizers") {
  Recipe recipe = regression();
  recipe.optimizer = [](nn::Module& model) {
    std::vector<nn::NamedTensor> body = model.named_parameters("size");
    for (nn::NamedTensor& each : model.named_parameters("place")) body.push_back(std::move(each));
    for (nn::NamedTensor& each : model.named_parameters("hidden")) body.push_back(std::move(each));
    return optim::combine({{optim::sgd(std::move(body), {.momentum = 0.9})},
                           {optim::adamw(model.named_parameters("price")), /*rate_factor=*/0.1}});
  };
  const int64_t bytes = MiB;
  const TrainingPlan plan = plan_training(recipe, {.bytes = bytes, .batch = 32});
  train(recipe, plan, bytes);
  CHECK(plan.predicted().at_peak[static_cast<size_t>(memory::Category::optimizer)] > 0);
}
