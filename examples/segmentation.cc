// A class for every pixel: a U-Net learns to find discs among noise, within a budget that
// recomputes what it must. The score is the share of pixels that are right.
#include <cstdio>
#include <vector>

#include "brim/brim.h"

using namespace brim;

constexpr int kSide = 32, kImages = 256;

/// Grey images with a bright disc each, and masks of it.
void draw(std::vector<float>& images, std::vector<int64_t>& masks, uint64_t seed) {
  RandomStream random(RandomKey{seed});
  for (int i = 0; i < kImages; ++i) {
    const float x = random.uniform(8, 24), y = random.uniform(8, 24), radius = random.uniform(3, 8);
    for (int row = 0; row < kSide; ++row)
      for (int column = 0; column < kSide; ++column) {
        const float right = static_cast<float>(column) - x, down = static_cast<float>(row) - y;
        masks.push_back(right * right + down * down < radius * radius);
        images.push_back(random.uniform(0, 1) + (masks.back() == 1 ? 0.5f : 0.0f));
      }
  }
}

int main() {
  const Recipe recipe{
      .model =
          [] {
            return std::make_shared<nn::UNet>(nn::UNetOptions{.in = 1, .channels = 8, .depth = 2});
          },
      .optimizer = [](nn::Module& model) { return optim::adamw(model); },
      .batch = {{"images", {kSide, kSide, 1}}, {"masks", {kSide, kSide}, Dtype::int64}},
      .loss = [](nn::Module& net,
                 const Batch& b) { return cross_entropy(net(b["images"]), b["masks"]); },
      .score =
          [](nn::Module& net, const Batch& batch) {
            const Tensor is_right = net(batch["images"]).argmax(-1) == batch["masks"];
            return cast(is_right, Dtype::float32).mean({1, 2});
          }};
  const TrainingPlan plan = plan_training(recipe, {.bytes = 5 * MiB, .batch = 16});
  std::printf("%s\n", plan.table().c_str());
  if (!plan.fits()) return std::puts(plan.why_not().c_str()), 1;

  std::vector<float> images, unseen;
  std::vector<int64_t> masks, unseen_masks;
  draw(images, masks, /*seed=*/1);
  draw(unseen, unseen_masks, /*seed=*/2);
  const auto source_of = [&](const std::vector<float>& x, const std::vector<int64_t>& y) {
    return ArraySource(recipe.batch, plan.batch(),
                       {std::as_bytes(std::span(x)), std::as_bytes(std::span(y))});
  };
  ArraySource train = source_of(images, masks), val = source_of(unseen, unseen_masks);
  plan.train(train, {.epochs = 6,
                     .schedule = optim::ConstantSchedule{.rate = 5e-3},
                     .on_epoch = [&](int64_t epoch, Training& training) {
                       std::printf("epoch %lld: %.1f%% of the pixels are right\n",
                                   static_cast<long long>(epoch), 100 * training.evaluate(val));
                     }});
}
