// The one call: a segmentation planned for a budget that a step as it is would not fit, and
// trained.
#include <cstdio>

#include "brim/base/bytes.h"
#include "brim/budget/plan_training.h"
#include "brim/nn/models/unet.h"
#include "brim/ops/cast.h"
#include "brim/ops/cross_entropy.h"
#include "brim/ops/operators.h"
#include "brim/optim/adamw.h"

using namespace brim;

int main() {
  // [recipe]
  const Recipe recipe{
      .model =
          [] {
            return std::make_shared<nn::UNet>(nn::UNetOptions{.in = 1, .channels = 8, .depth = 2});
          },
      .optimizer = [](nn::Module& model) { return optim::adamw(model); },
      .batch = {{"images", {32, 32, 1}}, {"masks", {32, 32}, Dtype::int64}},
      .loss =
          [](nn::Module& model, const Batch& batch) {
            return cross_entropy(model(batch["images"]), batch["masks"]);
          },
      .score =
          [](nn::Module& model, const Batch& batch) {
            const Tensor is_right = model(batch["images"]).argmax(-1) == batch["masks"];
            return cast(is_right, Dtype::float32).mean({1, 2});
          }};
  // [/recipe]

  // Squares on a dark ground: 64 of them, each with the mask of its pixels.
  std::vector<float> images(64 * 32 * 32);
  std::vector<int64_t> masks(64 * 32 * 32);
  for (int i = 0; i < 64; ++i)
    for (int y = 0; y < 12; ++y)
      for (int x = 0; x < 12; ++x) {
        const auto at = static_cast<size_t>((i * 32 + i % 20 + y) * 32 + i * 7 % 20 + x);
        images[at] = 1;
        masks[at] = 1;
      }

  // [plan]
  const TrainingPlan plan = plan_training(recipe, {.bytes = 5 * MiB, .batch = 16});
  std::printf("%s", plan.table().c_str());
  if (!plan.fits()) return std::puts(plan.why_not().c_str()), 1;

  ArraySource source(recipe.batch, plan.batch(),
                     {std::as_bytes(std::span(images)), std::as_bytes(std::span(masks))});
  double last = 0;
  Training trained = plan.train(source, {.epochs = 5,
                                         .schedule = optim::ConstantSchedule{.rate = 0.01},
                                         .on_update = [&](int64_t, double loss) { last = loss; }});
  const int64_t held = trained.account()->stats().peak_reserved;
  std::printf("held %s, loss %.3f\n", format_bytes(held).c_str(), last);
  check(held == plan.predicted().peak_reserved, "to the byte");
  // [/plan]
  check(held <= 5 * MiB && !plan.remedies().empty(), "a remedy was needed");
  check(last < 0.2, "it learns");

  // [refused]
  const TrainingPlan less = plan_training(recipe, {.bytes = 1 * MiB, .batch = 16});
  check(!less.fits(), "no exception: an answer");
  std::puts(less.why_not().c_str());
  // [/refused]
  check(less.why_not().find("micro-batches") != std::string::npos, "with what would fit");

  // [loop]
  Training mine = plan.begin();
  for (int epoch = 0; epoch < 2; ++epoch) {
    source.start_epoch(epoch);
    while (std::optional<HostExamples> batch = source.next()) mine.update(*batch, /*rate=*/0.01);
  }
  std::printf("%.1f%% of the pixels are right\n", 100 * mine.evaluate(source));
  // [/loop]
  check(mine.step().updates() == 8, "four batches an epoch");
}
