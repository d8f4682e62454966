#include <cstdio>

#include "brim/brim.h"

using namespace brim;

int main() {
  const Recipe recipe{
      .model = [] { return nn::make_model("resnet20", {.classes = 10}); },
      .optimizer = [](nn::Module& model) { return optim::sgd(model, {.momentum = 0.9}); },
      .batch = image_batch(/*size=*/32)};
  const TrainingPlan plan = plan_training(recipe, {.bytes = 20 * MiB, .batch = 32});
  std::puts(plan.table().c_str());  // what was considered: bytes, time, verdict
  if (!plan.fits()) return std::puts(plan.why_not().c_str()), 1;

  auto drawn = std::make_shared<data::Shapes>(data::ShapesOptions{.size = 32});
  ImageSource shapes(drawn, {.batch = plan.batch(), .size = 32});
  const Training trained = plan.train(shapes, {.schedule = optim::ConstantSchedule{.rate = 0.02}});
  std::printf("held %s\n", format_bytes(trained.account()->stats().peak_reserved).c_str());
}
