// Training a part of a model: what is frozen, groups with numbers of their own, averages.
#include <cstdio>

#include "brim/brim.h"

using namespace brim;

int main() {
  auto model = nn::make_model("resnet20", {.classes = 10, .seed = 1});
  Tensor images = uniform({8, 32, 32, 3}, -1, 1, RandomKey{1});
  Tensor labels = from_vector<int64_t>({0, 1, 2, 3, 4, 5, 6, 7}, {8});
  auto loss = [&] { return cross_entropy((*model)(images), labels); };
  std::vector<float> frozen = model->tensor("layer1.0.bn1.running_mean").to_vector<float>();
  // [part]
  for (const char* part : {"conv1", "bn1", "layer1"}) model->freeze(part);
  optim::ParameterGroup head{.name = "head", .prefixes = {"fc"}, .rate_factor = 10};
  optim::AdamW adamw(model->named_parameters(),
                     {.weight_decay = 0.01, .groups = optim::no_decay(*model, {}, {head})});
  optim::Ema ema(*model, {.decay = 0.999, .warmup = true});
  TrainStep step(*model, adamw, {.clip = {.norm = 1}, .ema = &ema});
  for (int i = 0; i < 20; ++i) step.run(/*rate=*/1e-3, loss);
  // [/part]
  double trained = loss().item<double>();
  // [averaged]
  optim::EmaScope averaged(ema);  // the averages are the model's values until the block ends
  // [/averaged]
  double average = loss().item<double>();
  std::printf("loss %.3f, of the averages %.3f\n", trained, average);
  check(trained < 0.5, "eight images are learned by heart; chance would be log(10)");
  check(average != trained, "the averages are other values");
  check(model->tensor("layer1.0.bn1.running_mean").to_vector<float>() == frozen,
        "frozen statistics stay");
}
