// The one call: what it plans for any model, batch and loss is what a training holds, to the byte;
// what does not fit is told with what would.
#include "brim/budget/plan_training.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/data/shapes.h"
#include "brim/tests/budget/recipes.h"
#include "brim/tests/support/instrumented.h"

using namespace brim;
using namespace brim::testing;

namespace {

/// Trains two epochs of three updates under the plan, which has to hold what was predicted.
std::vector<double> train(const Recipe& recipe, const TrainingPlan& plan) {
  RandomSource source(recipe, plan.batch(), 3);
  std::vector<double> losses;
  Training trained = plan.train(source, {.epochs = 2,
                                         .schedule = optim::ConstantSchedule{.rate = 1e-3},
                                         .on_update = [&](int64_t update, double loss) {
                                           CHECK(update == static_cast<int64_t>(losses.size()) + 1);
                                           losses.push_back(loss);
                                         }});
  const memory::AccountStats held = trained.account()->stats();
  CHECK(held.peak_reserved == plan.predicted().peak_reserved);
  CHECK(held.peak_live == plan.predicted().peak_live);
  CHECK(held.mismatches == 0);
  CHECK(trained.step().updates() == 6);
  REQUIRE(losses.size() == 6);
  return losses;
}

std::vector<double> train(const Recipe& recipe, const Budget& budget) {
  const TrainingPlan plan = plan_training(recipe, budget);
  REQUIRE_MESSAGE(plan.fits(), plan.table());
  CHECK(plan.predicted().peak_reserved <= budget.bytes);
  CHECK(plan.why_not().empty());
  return train(recipe, plan);
}

}  // namespace

TEST_CASE("plan_training: a regression on two inputs holds what was predicted, and learns") {
  const std::vector<double> losses = train(regression(), {.bytes = 64 * kMiB, .batch = 32});
  CHECK(losses.back() < losses.front());
}

TEST_CASE("plan_training: a smaller budget for a loss per pixel has the same losses") {
  const Recipe recipe = segmentation();
  const TrainingPlan free = plan_training(recipe, {.bytes = 1024 * kMiB, .batch = 8});
  const std::vector<double> losses = train(recipe, free);
  CHECK(free.remedies().empty());
  const int64_t less = free.predicted().peak_reserved * 3 / 4;
  const TrainingPlan plan = plan_training(recipe, {.bytes = less, .batch = 8});
  REQUIRE_MESSAGE(plan.fits(), plan.table());
  CHECK(plan.predicted().peak_reserved <= less);
  CHECK(plan.relative_time() >= 1);
  REQUIRE(!plan.remedies().empty());
  CHECK(plan.table().find(plan.remedies().front()) != std::string::npos);
  CHECK(train(recipe, plan) == losses);
}

TEST_CASE("plan_training: what does not fit is told with what would") {
  const Recipe recipe = segmentation();
  const TrainingPlan whole = plan_training(recipe, {.bytes = 1024 * kMiB, .batch = 32});
  const int64_t less = whole.predicted().peak_reserved / 6;
  const TrainingPlan plan = plan_training(recipe, {.bytes = less, .batch = 32});
  REQUIRE_FALSE(plan.fits());
  CHECK(plan.why_not().find("a step of 32 examples takes ") == 0);
  CHECK_MESSAGE(plan.why_not().find("what would fit: ") != std::string::npos, plan.why_not());
  CHECK(plan.why_not().find(" micro-batches of ") != std::string::npos);
  CHECK_THROWS_WITH_AS(plan.begin(), doctest::Contains("the training does not fit: a step of"),
                       ValueError);
  // One of the offers, taken.
  const Budget taken{.bytes = less, .batch = 32, .micro_batch = 2};
  CHECK(plan_training(recipe, taken).micro_batch() == 2);
  train(recipe, taken);

  const TrainingPlan none = plan_training(recipe, {.bytes = 4096, .batch = 32});
  CHECK_FALSE(none.fits());
  CHECK(none.why_not().find("least is needed with ") != std::string::npos);
}

TEST_CASE("plan_training: classifiers of images are the default") {
  const Recipe recipe = classifier("resnet20", 32);
  auto images = std::make_shared<data::Shapes>(data::ShapesOptions{.count = 100, .size = 32});
  ImageSource source(images, {.batch = 32, .size = 32, .workers = 0});
  const TrainingPlan plan = plan_training(recipe, {.bytes = 20 * kMiB, .batch = 32});
  REQUIRE_MESSAGE(plan.fits(), plan.table());
  int64_t updates = 0;
  Training trained = plan.train(source, {.schedule = optim::ConstantSchedule{.rate = 0.01},
                                         .on_update = [&](int64_t, double loss) {
                                           CHECK(std::isfinite(loss));
                                           ++updates;
                                         }});
  CHECK(updates == 3);
  CHECK(trained.account()->stats().peak_reserved == plan.predicted().peak_reserved);
}

TEST_CASE("plan_training: what a table proposes can be asked for, and holds what was predicted") {
  const Budget budget{.bytes = 1024 * kMiB, .batch = 8};
  Recipe recipe = segmentation();
  const int64_t as_it_is = plan_training(recipe, budget).predicted().peak_reserved;
  recipe.precision = Dtype::bfloat16;
  train(recipe, budget);
  CHECK(plan_training(recipe, budget).predicted().peak_reserved < as_it_is);
  recipe.gradients = Dtype::bfloat16;
  train(recipe, budget);
  recipe.parameters = Dtype::bfloat16;
  train(recipe, budget);
  Recipe fused = segmentation();
  fused.fused_update = true;
  train(fused, budget);
}

TEST_CASE("plan_training: parts of different sizes; an update that fails leaves all as it was") {
  Recipe recipe = segmentation(16);
  train(recipe, {.bytes = 1024 * kMiB, .batch = 10, .micro_batch = 4});

  auto fails_in = std::make_shared<int>(0);
  recipe.loss = [fails_in](nn::Module& model, const Batch& batch) {
    if (*fails_in > 0 && --*fails_in == 0) raise<ValueError>("test", "the loss failed");
    return cross_entropy(model(batch["images"]), batch["masks"]);
  };
  const TrainingPlan plan =
      plan_training(recipe, {.bytes = 1024 * kMiB, .batch = 10, .micro_batch = 4});
  RandomSource source(recipe, 10, 100);
  auto losses_of = [&](int failing) {
    Training training = plan.begin();
    const std::optional<HostExamples> batch = source.next();
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) {
      if (i == 1 && failing > 0) {
        *fails_in = failing;
        const int64_t live = training.account()->stats().live;
        CHECK_THROWS_WITH_AS(training.update(*batch, 0.01), doctest::Contains("the loss failed"),
                             ValueError);
        CHECK(training.account()->stats().live == live);
      }
      losses.push_back(training.update(*batch, 0.01));
    }
    return losses;
  };
  const std::vector<double> whole = losses_of(0);
  CHECK(losses_of(2) == whole);
  CHECK(losses_of(3) == whole);
}

TEST_CASE("plan_training: two trainings at a time are each on their own account") {
  const Recipe recipe = regression();
  const TrainingPlan small = plan_training(recipe, {.bytes = kMiB, .batch = 8}),
                     large = plan_training(recipe, {.bytes = 2 * kMiB, .batch = 64});
  RandomSource eight(recipe, 8, 9), many(recipe, 64, 9);
  std::optional<Training> first = small.begin();
  std::optional<Training> second = large.begin();
  const HostExamples few = *eight.next(), more = *many.next();
  for (int i = 0; i < 3; ++i) {
    first->update(few, 0.01);
    second->update(more, 0.01);
  }
  CHECK(first->account()->stats().peak_reserved == small.predicted().peak_reserved);
  first.reset();  // before the other
  second->update(more, 0.01);
  CHECK(second->account()->stats().peak_reserved == large.predicted().peak_reserved);
  CHECK(second->account()->stats().mismatches == 0);
}

TEST_CASE("plan_training: a model's values are its own, those of a file, or initial ones") {
  const Budget budget{.bytes = kMiB, .batch = 4};
  Recipe recipe = regression();
  auto first_weight = [&] {
    return plan_training(recipe, budget)
        .begin()
        .model()
        .tensor("size.weight")
        .to_vector<float>()[0];
  };
  const float initial = first_weight();
  recipe.seed = 1;
  CHECK(first_weight() != initial);
  recipe.values = [](nn::Module& model) {
    for (const nn::NamedTensor& named : model.named_parameters()) fill(named.tensor, 0.25);
  };
  CHECK(first_weight() == 0.25f);
  recipe.values = [](nn::Module& model) { fill(model.tensor("size.weight"), 0.25); };
  CHECK_THROWS_WITH_AS(first_weight(), doctest::Contains(" has no values yet"), ValueError);
}
