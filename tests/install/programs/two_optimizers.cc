// A classifier whose layers have SGD, and whose head has AdamW at a tenth of the rate.
#include <cstdio>

#include "brim/brim.h"

using namespace brim;

std::unique_ptr<optim::Optimizer> sgd_and_adamw(nn::Module& model) {
  std::vector<nn::NamedTensor> layers, head;
  for (nn::NamedTensor& each : model.named_parameters())
    (each.name.starts_with("fc.") ? head : layers).push_back(each);
  return optim::combine(
      {{optim::sgd(layers, {.momentum = 0.9})}, {optim::adamw(head), /*rate_factor=*/0.1}});
}

int main() {
  const Recipe recipe{.model = [] { return nn::make_model("resnet20", {.classes = 10}); },
                      .optimizer = sgd_and_adamw,
                      .batch = image_batch(/*size=*/16)};
  const TrainingPlan less = plan_training(recipe, {.bytes = 1 * MiB, .batch = 8});
  std::printf("%s\n", less.why_not().c_str());
  const TrainingPlan plan = plan_training(recipe, {.bytes = 6 * MiB, .batch = 8});
  if (!plan.fits()) return std::puts(plan.why_not().c_str()), 1;
  ImageSource shapes(std::make_shared<data::Shapes>(data::ShapesOptions{.count = 24, .size = 16}),
                     {.batch = 8, .size = 16});
  const Training trained = plan.train(shapes);
  return trained.account()->stats().peak_reserved == plan.predicted().peak_reserved ? 0 : 1;
}
