// Recipes, budgets and batches that cannot be, each named in one line; the training is as it was.
#include <doctest/doctest.h>

#include <cmath>

#include "brim/base/parallel.h"
#include "brim/budget/plan_training.h"
#include "brim/tests/budget/recipes.h"

using namespace brim;
using namespace brim::testing;

TEST_CASE("plan_training: wrong recipes, budgets and batches are named") {
  const Recipe good = regression();
  const Budget budget{.bytes = kMiB, .batch = 4};
  auto check_refused = [](const Recipe& recipe, const Budget& budget, const char* text) {
    CHECK_THROWS_WITH(plan_training(recipe, budget), doctest::Contains(text));
  };
  check_refused({}, budget, "expected a recipe with model, optimizer, batch and loss");
  check_refused(good, {.bytes = 0, .batch = 4}, "expected a budget of at least 1 byte, got 0");
  check_refused(good, {.bytes = kMiB, .batch = -1}, "expected a batch of at least 1 example");
  check_refused(good, {.bytes = kMiB, .batch = 4, .micro_batch = 5},
                "expected a micro-batch from 1 to the 4 examples of a batch, got 5");
  Recipe wrong = good;
  wrong.model = [] { return std::shared_ptr<nn::Module>(); };
  check_refused(wrong, budget, "its function for the model made none");
  wrong.model = [made = std::make_shared<TwoInputs>()] { return made; };
  check_refused(wrong, budget, "made 'size.weight' of its model on cpu instead of meta");
  wrong = good;
  wrong.optimizer = [](nn::Module&) { return std::unique_ptr<optim::Optimizer>(); };
  check_refused(wrong, budget, "its function for the optimizer made none");
  wrong = good;
  wrong.batch.push_back({"sizes", {3}});
  check_refused(wrong, budget, "two tensors of the batch are called 'sizes'");
  wrong = good;
  wrong.precision = Dtype::float16;
  check_refused(wrong, budget, "float16 wants its loss scaled");
  wrong = good;
  wrong.loss = [](nn::Module&, const Batch& batch) { return batch["prize"]; };
  check_refused(wrong, budget, "no tensor is called 'prize'; there are: sizes, places, price");
  wrong = good;
  wrong.loss = [&](nn::Module& model, const Batch& batch) {
    Tensor loss = good.loss(model, batch);
    return loss.item<float>() > 1 ? loss : mul(loss, loss);
  };
  check_refused(wrong, budget, "meta");

  auto is_other = std::make_shared<bool>(false);
  wrong = good;
  wrong.model = [is_other]() -> std::shared_ptr<nn::Module> {
    if (!*is_other) return std::make_shared<TwoInputs>();
    return std::make_shared<nn::Linear>(2, 1);
  };
  const TrainingPlan changing = plan_training(wrong, budget);
  *is_other = true;
  CHECK_THROWS_WITH_AS(changing.begin(),
                       doctest::Contains("the recipe makes another model than when it was planned: "
                                         "parameter weight [1,2], where there was parameter "
                                         "size.weight [64,2]"),
                       ValueError);

  const TrainingPlan plan = plan_training(good, budget);
  Training training = plan.begin();
  const std::vector<std::byte> bytes(1024);
  auto of = [&](size_t first, size_t second, size_t third) {
    return std::vector<std::span<const std::byte>>{std::span(bytes).first(first),
                                                   std::span(bytes).first(second),
                                                   std::span(bytes).first(third)};
  };
  CHECK_THROWS_WITH(training.update({3, of(24, 48, 12)}, 0.1),
                    doctest::Contains("expected the 4 examples of an update, got 3"));
  CHECK_THROWS_WITH(training.update({4, {}}, 0.1),
                    doctest::Contains("expected the recipe's 3 tensors, got 0"));
  CHECK_THROWS_WITH(training.update({4, of(32, 60, 16)}, 0.1),
                    doctest::Contains("expected 64 bytes of 'places' for 4 examples, got 60"));
  CHECK(std::isfinite(training.update({4, of(32, 64, 16)}, 0.1)));
  CHECK(training.step().updates() == 1);

  const int threads = num_threads();
  set_num_threads(threads + 1);
  CHECK_THROWS_WITH_AS(plan.begin(), doctest::Contains(": plan again"), ValueError);
  set_num_threads(threads);

  RandomSource none(good, 4, 0);
  CHECK_THROWS_WITH(plan.train(none, {.epochs = 0}),
                    doctest::Contains("expected at least 1 epoch, got 0"));
  CHECK_THROWS_WITH(plan.train(none),
                    doctest::Contains("epoch 1 of the source ended before it gave a batch"));
}
