// Random models, batches and budgets: what is chosen holds what was predicted, to the byte, every
// offer of a refusal does, and no combination holds more than each of its parts.
// BRIM_BUDGET_TRIPLES=100 looks at so many.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "brim/budget/plan_training.h"
#include "brim/tests/budget/recipes.h"
#include "brim/tests/support/instrumented.h"

using namespace brim;
using namespace brim::testing;

namespace {

int triples() {
  if (const char* asked = std::getenv("BRIM_BUDGET_TRIPLES")) return std::atoi(asked);
  return is_instrumented() ? 4 : 12;
}

void check_trains(const Recipe& recipe, const TrainingPlan& plan, int64_t bytes) {
  CHECK(plan.predicted().peak_reserved <= bytes);
  RandomSource source(recipe, plan.batch(), 3);
  const Training trained = plan.train(source, {.schedule = optim::ConstantSchedule{.rate = 1e-3}});
  const memory::AccountStats held = trained.account()->stats();
  CHECK(held.peak_reserved == plan.predicted().peak_reserved);
  CHECK(held.peak_live == plan.predicted().peak_live);
  CHECK(held.mismatches == 0);
}

void check_combinations(const LadderResult& ladder) {
  for (const Rung& whole : ladder.considered)
    for (const Rung& part : ladder.considered) {
      const bool is_part = part.names.size() == 1 && whole.names.size() > 1 &&
                           std::ranges::count(whole.names, part.names.front()) > 0;
      // One that fits may take more bytes where it takes less time.
      if (is_part && !(whole.fits && whole.relative_time < part.relative_time))
        CHECK(whole.memory.peak_reserved <= part.memory.peak_reserved);
    }
}

}  // namespace

TEST_CASE(
    "plan_training: random models, batches and budgets hold what was predicted, or offer it") {
  RandomStream random(RandomKey{53});
  int fitted = 0, refused = 0, taken = 0;
  for (int i = 0; i < triples(); ++i) {
    std::vector<Recipe> recipes{regression(), segmentation(16), classifier("resnet20", 16),
                                classifier("mobilenet_v3_small", 32)};
    Recipe& recipe = recipes[random.below(recipes.size())];
    if (random.below(2) == 0)
      recipe.optimizer = [](nn::Module& model) { return optim::adamw(model); };
    const Budget all{.bytes = 4096 * MiB, .batch = 2 + static_cast<int64_t>(random.below(12))};
    Budget budget = all;
    const int64_t peak = plan_training(recipe, all).predicted().peak_reserved;
    budget.bytes = static_cast<int64_t>(static_cast<double>(peak) * random.uniform(0.2f, 1.2f));
    budget.take_proposals = random.below(4) == 0;
    CAPTURE(i);
    CAPTURE(budget.batch);
    CAPTURE(budget.bytes);
    const TrainingPlan plan = plan_training(recipe, budget);
    CAPTURE(plan.table());
    check_combinations(plan.considered());
    if (plan.fits()) {
      check_trains(recipe, plan, budget.bytes);
      ++fitted;
      continue;
    }
    ++refused;
    CHECK(plan.predicted().peak_reserved > budget.bytes);
    bool offers = false;
    for (size_t line = 0; line < plan.considered().considered.size(); ++line)
      if (plan.considered().considered[line].fits) {
        CAPTURE(line);
        check_trains(recipe, plan.take(line), budget.bytes);
        offers = true;
        ++taken;
      }
    const std::string why = plan.why_not();
    CHECK_MESSAGE(
        (why.find(offers ? "what would fit: " : "least is needed with ") != std::string::npos),
        why);
    CHECK_THROWS_WITH_AS(plan.take(0), doctest::Contains("expected a line of the table that fits"),
                         ValueError);
  }
  MESSAGE(fitted, " fitted, ", refused, " were refused, and ", taken, " offers were taken");
  CHECK(fitted > 0);
  CHECK(refused > 0);
  if (!is_instrumented()) CHECK(taken > 0);
}
