// Evaluations within a plan: they hold no more than was predicted, and average over every example.
#include <doctest/doctest.h>

#include <cmath>

#include "brim/budget/plan_training.h"
#include "brim/data/shapes.h"
#include "brim/tests/budget/recipes.h"

using namespace brim;
using namespace brim::testing;

namespace {

std::shared_ptr<const data::Dataset> shapes(data::ShapesOptions::Split split, int64_t count) {
  return std::make_shared<data::Shapes>(
      data::ShapesOptions{.split = split, .count = count, .size = 32});
}

}  // namespace

TEST_CASE("evaluation: after each epoch, within what was predicted, also of a smaller last batch") {
  for (const int64_t micro_batch : {0, 6}) {
    CAPTURE(micro_batch);
    Recipe recipe = classifier("resnet20", 32);
    recipe.score = classification_score;
    const TrainingPlan plan =
        plan_training(recipe, {.bytes = 64 * MiB, .batch = 16, .micro_batch = micro_batch});
    REQUIRE_MESSAGE(plan.fits(), plan.table());
    ImageSource train(shapes(data::ShapesOptions::Split::train, 40), {.batch = 16, .size = 32}),
        val(shapes(data::ShapesOptions::Split::val, 37), {.batch = 16, .size = 32});
    std::vector<double> accuracies;
    Training trained = plan.train(train, {.epochs = 2,
                                          .schedule = optim::ConstantSchedule{.rate = 0.01},
                                          .on_epoch = [&](int64_t, Training& training) {
                                            accuracies.push_back(training.evaluate(val));
                                          }});
    CHECK(accuracies.size() == 2);
    for (const double accuracy : accuracies)
      CHECK(std::abs(accuracy * 37 - std::round(accuracy * 37)) < 1e-9);
    const memory::AccountStats held = trained.account()->stats();
    CHECK(held.peak_reserved == plan.predicted().peak_reserved);
    CHECK(held.mismatches == 0);
    CHECK(trained.model().training());
  }
}

TEST_CASE("evaluation: the score of every example counts once, in evaluation mode") {
  Recipe recipe = regression();
  recipe.score = [](nn::Module& model, const Batch& batch) {
    CHECK_FALSE(model.training());
    const Tensor error = model(batch["sizes"], batch["places"]) - batch["price"];
    return (error * error).sum(1);
  };
  std::vector<float> sizes, places, prices;
  for (int i = 0; i < 21; ++i) {
    sizes.insert(sizes.end(), {static_cast<float>(i), 1});
    places.insert(places.end(), {0, 1, 0, static_cast<float>(i % 3)});
    prices.push_back(static_cast<float>(i % 5));
  }
  const auto source_of = [&](int64_t batch) {
    return ArraySource(recipe.batch, batch,
                       {std::as_bytes(std::span(sizes)), std::as_bytes(std::span(places)),
                        std::as_bytes(std::span(prices))});
  };
  Training training = plan_training(recipe, {.bytes = MiB, .batch = 8, .micro_batch = 3}).begin();
  ArraySource eights = source_of(8), one = source_of(21);
  const double mean = training.evaluate(eights);
  CHECK(training.evaluate(one) == doctest::Approx(mean));
  // By hand.
  memory::AccountScope scope(memory::account(Device::cpu()));
  const Tensor error = training.model()(from_vector(sizes, {21, 2}), from_vector(places, {21, 4})) -
                       from_vector(prices, {21, 1});
  CHECK((error * error).mean().item<double>() == doctest::Approx(mean));
}

TEST_CASE("evaluation: what cannot be evaluated is named") {
  const Recipe recipe = regression();
  RandomSource source(recipe, 4, 2), empty(recipe, 4, 0);
  Training training = plan_training(recipe, {.bytes = MiB, .batch = 4}).begin();
  CHECK_THROWS_WITH_AS(training.evaluate(source), doctest::Contains("the recipe has no score"),
                       ValueError);
  Recipe scored = recipe;
  scored.score = [](nn::Module& model, const Batch& batch) {
    return model(batch["sizes"], batch["places"]);
  };
  CHECK_THROWS_WITH_AS(plan_training(scored, {.bytes = MiB, .batch = 4}),
                       "score: expected a number for each of 4 examples, got [4,1]", ShapeError);
  scored.score = [](nn::Module& model, const Batch& batch) {
    return model(batch["sizes"], batch["places"]).sum(1);
  };
  Training ready = plan_training(scored, {.bytes = MiB, .batch = 4}).begin();
  CHECK_THROWS_WITH_AS(ready.evaluate(empty), doctest::Contains("has no examples to evaluate"),
                       ValueError);
}
