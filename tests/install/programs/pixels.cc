// A class for every pixel by a U-Net, within a budget.
#include <cstdio>
#include <vector>

#include "brim/brim.h"

using namespace brim;

int main() {
  const Recipe recipe{
      .model =
          [] { return std::make_shared<nn::UNet>(nn::UNetOptions{.channels = 8, .depth = 2}); },
      .optimizer = [](nn::Module& net) { return optim::sgd(net, {.momentum = 0.9}); },
      .batch = {{"images", {16, 16, 3}}, {"masks", {16, 16}, Dtype::int64}},
      .loss = [](nn::Module& net,
                 const Batch& of) { return cross_entropy(net(of["images"]), of["masks"]); }};
  const TrainingPlan less = plan_training(recipe, {.bytes = 100 * KiB, .batch = 4});
  std::printf("%s\n", less.why_not().c_str());
  const TrainingPlan plan = plan_training(recipe, {.bytes = 900 * KiB, .batch = 4});
  if (!plan.fits()) return std::puts(plan.why_not().c_str()), 1;
  const std::vector<float> images(8 * 16 * 16 * 3, 0.25f);
  const std::vector<int64_t> masks(8 * 16 * 16, 1);
  ArraySource source(recipe.batch, 4,
                     {std::as_bytes(std::span(images)), std::as_bytes(std::span(masks))});
  const Training trained = plan.train(source);
  return trained.account()->stats().peak_reserved == plan.predicted().peak_reserved ? 0 : 1;
}
