// Arrays as a source of examples: each once an epoch, with all that belongs to it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/budget/plan_training.h"
#include "brim/tests/budget/recipes.h"

using namespace brim;
using namespace brim::testing;

TEST_CASE("array source: arrays are given whole, each example once an epoch") {
  const Recipe recipe = regression();
  std::vector<float> sizes, places, prices;
  for (int i = 0; i < 70; ++i) {
    const float x = static_cast<float>(i) / 70;
    sizes.insert(sizes.end(), {x, 1 - x});
    places.insert(places.end(), {x, x, 0, 1});
    prices.push_back(2 * x + 1);
  }
  ArraySource source(recipe.batch, 16,
                     {std::as_bytes(std::span(sizes)), std::as_bytes(std::span(places)),
                      std::as_bytes(std::span(prices))});
  const TrainingPlan plan = plan_training(recipe, {.bytes = kMiB, .batch = 16});
  std::vector<double> losses;
  Training trained =
      plan.train(source, {.epochs = 50,
                          .schedule = optim::ConstantSchedule{.rate = 1e-2},
                          .on_update = [&](int64_t, double loss) { losses.push_back(loss); }});
  CHECK(losses.size() == 200);  // of 70 examples four batches, and six that are left
  CHECK(losses.back() < 0.01);
  std::vector<int> seen(70);
  source.start_epoch(3);
  while (auto batch = source.next()) {
    const auto* price = reinterpret_cast<const float*>(batch->tensors[2].data());
    const auto* size = reinterpret_cast<const float*>(batch->tensors[0].data());
    for (int64_t i = 0; i < batch->examples; ++i) {
      CHECK(price[i] == 2 * size[2 * i] + 1);
      ++seen[static_cast<size_t>(std::lround(size[2 * i] * 70))];
    }
  }
  CHECK(std::ranges::count(seen, 1) == 70);
}

TEST_CASE("array source: arrays that do not go together are refused") {
  const std::vector<BatchTensor> described{{"x", {2}}, {"y", {}}};
  const std::vector<std::byte> bytes(64);
  auto check_refused = [&](std::vector<size_t> sizes, int64_t batch, const char* text) {
    std::vector<std::span<const std::byte>> arrays;
    for (const size_t size : sizes) arrays.push_back(std::span(bytes).first(size));
    CHECK_THROWS_WITH_AS(ArraySource(described, batch, arrays), doctest::Contains(text),
                         ValueError);
  };
  check_refused({64}, 2, "expected an array for each of 2 tensors, got 1");
  check_refused({60, 32}, 2, "expected whole examples of 8 bytes in 'x', got 60 bytes");
  check_refused({64, 28}, 2, "'y' has 7 examples, and 'x' 8");
  check_refused({64, 32}, 9, "expected at least the 9 examples of a batch, got 8");
  check_refused({64, 32}, 0, "expected a batch of at least 1, got 0");
}
