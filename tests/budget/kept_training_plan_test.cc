// A plan in a file trains as the plan that was kept, to the bit and to the byte; for another
// recipe, machine or version it is refused with the reason.
#include <doctest/doctest.h>

#include <string>

#include "brim/base/parallel.h"
#include "brim/budget/plan_training.h"
#include "brim/data/read_file.h"
#include "brim/tests/budget/recipes.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using namespace brim::testing;

namespace {

std::vector<double> losses_of(const Recipe& recipe, const TrainingPlan& plan) {
  RandomSource source(recipe, plan.batch(), 3);
  std::vector<double> losses;
  const Training trained =
      plan.train(source, {.schedule = optim::ConstantSchedule{.rate = 1e-3},
                          .on_update = [&](int64_t, double loss) { losses.push_back(loss); }});
  CHECK(trained.account()->stats().peak_reserved == plan.predicted().peak_reserved);
  CHECK(trained.account()->stats().mismatches == 0);
  return losses;
}

Recipe scored_classifier() {
  Recipe recipe = classifier("resnet20", 16);
  recipe.score = classification_score;
  return recipe;
}

}  // namespace

TEST_CASE("kept training plan: trains as the one that was kept") {
  const TempFolder folder;
  const std::string path = folder.path() + "/plan";
  const struct {
    Recipe recipe;
    double share;  // of what it takes as it is
    bool take_proposals;
  } cases[] = {{regression(), 1.5, false},         {segmentation(), 0.7, false},
               {segmentation(), 0.45, true},       {segmentation(), 0.2, true},
               {scored_classifier(), 0.75, false}, {scored_classifier(), 0.5, true}};
  for (const auto& [recipe, share, take_proposals] : cases) {
    CAPTURE(share);
    const int64_t peak =
        plan_training(recipe, {.bytes = 1024 * MiB, .batch = 12}).predicted().peak_reserved;
    const TrainingPlan plan =
        plan_training(recipe, {.bytes = static_cast<int64_t>(share * static_cast<double>(peak)),
                               .batch = 12,
                               .take_proposals = take_proposals});
    REQUIRE_MESSAGE(plan.fits(), plan.table());
    plan.save(path);
    const TrainingPlan kept = load_training_plan(recipe, path);
    CHECK(kept.fits());
    CHECK(kept.table() == plan.table());
    CHECK(kept.remedies() == plan.remedies());
    CHECK(kept.micro_batch() == plan.micro_batch());
    CHECK(kept.precision() == plan.precision());
    CHECK(kept.relative_time() == plan.relative_time());
    CHECK(losses_of(recipe, kept) == losses_of(recipe, plan));
  }
}

TEST_CASE("kept training plan: for another recipe, machine or version it is refused") {
  const TempFolder folder;
  const std::string path = folder.path() + "/plan";
  const Recipe recipe = segmentation();
  const TrainingPlan plan = plan_training(recipe, {.bytes = 16 * MiB, .batch = 8});
  plan.save(path);
  auto check_refused = [&](const Recipe& other, const char* text) {
    CHECK_THROWS_WITH_AS(load_training_plan(other, path), doctest::Contains(text), FileError);
  };
  check_refused(regression(), "it is for another model: parameter size.weight [64,2], where there");
  Recipe other = recipe;
  other.loss = [&](nn::Module& model, const Batch& batch) {
    const Tensor scores = model(batch["images"]);
    return cross_entropy(scores * scores, batch["masks"]);
  };
  check_refused(other, "its batch, loss or optimizer is another one: a step holds ");
  other = recipe;
  other.optimizer = [](nn::Module& model) { return optim::sgd(model); };
  check_refused(other, "its batch, loss or optimizer is another one");
  other = recipe;
  other.score = [](nn::Module& model, const Batch& batch) {
    return model(batch["images"]).mean({1, 2, 3});
  };
  check_refused(other, "scored");
  const int threads = num_threads();
  set_num_threads(threads + 1);
  check_refused(recipe, " threads");
  set_num_threads(threads);
  const std::vector<uint8_t> whole = data::read_file(path, 1 << 30);
  for (size_t at = 0; at < whole.size(); at += whole.size() / 37) {
    std::vector<uint8_t> damaged = whole;
    damaged[at] ^= 0x04;
    folder.write("plan", damaged);
    CHECK_THROWS_AS(load_training_plan(recipe, path), FileError);
  }
  folder.write("plan", std::span(whole).first(whole.size() / 2));
  check_refused(recipe, "it is damaged");
  std::string text(whole.begin(), whole.end());
  text.replace(text.find("\"version\":1"), 11, "\"version\":9");
  folder.write("plan", std::vector<uint8_t>(text.begin(), text.end()));
  check_refused(recipe, "it is of version 9, and this reads version 1");
  CHECK_THROWS_AS(load_training_plan(recipe, folder.path() + "/none"), FileError);
  CHECK_THROWS_WITH_AS(plan_training(recipe, {.bytes = 4096, .batch = 8}).save(path),
                       doctest::Contains("the training does not fit"), ValueError);
}
