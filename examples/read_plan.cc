// What a plan says before the first byte: what a step of ResNet-50 holds and of which kind, what
// was considered to fit it into less, and what each budget costs in time.
#include <cstdio>

#include "brim/brim.h"

using namespace brim;

int main() {
  const Recipe recipe{
      .model = [] { return nn::make_model("resnet50", {.classes = 10}); },
      .optimizer = [](nn::Module& model) { return optim::sgd(model, {.momentum = 0.9}); },
      .batch = image_batch(64)};
  const TrainingPlan whole = plan_training(recipe, {.bytes = 8 * GiB, .batch = 8});
  const StepMemory& step = whole.predicted();
  std::printf("a step of %lld images holds %s at its peak, %s of it between steps:\n",
              static_cast<long long>(whole.batch()), format_bytes(step.peak_reserved).c_str(),
              format_bytes(step.state).c_str());
  for (size_t i = 0; i < step.at_peak.size(); ++i)
    if (step.at_peak[i] > 0)
      std::printf("  %-14s %10s\n",
                  std::string(to_string(static_cast<memory::Category>(i))).c_str(),
                  format_bytes(step.at_peak[i]).c_str());

  for (const double share : {0.95, 0.9, 0.85}) {
    const auto bytes = static_cast<int64_t>(share * static_cast<double>(step.peak_reserved));
    const TrainingPlan plan = plan_training(recipe, {.bytes = bytes, .batch = 8});
    std::printf("\nin %s:\n%s", format_bytes(bytes).c_str(), plan.table().c_str());
    if (!plan.fits()) std::printf("%s\n", plan.why_not().c_str());
  }
}
