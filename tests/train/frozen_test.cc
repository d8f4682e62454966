// Fine-tuning: what frozen parts of a model keep, and what they cost no longer.
#include <doctest/doctest.h>

#include "brim/nn/models/registry.h"
#include "brim/optim/adamw.h"
#include "brim/optim/ema.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/step_memory.h"
#include "brim/train/train_step.h"

using namespace brim;
using namespace brim::testing;

namespace {

// Two updates of resnet20 whose first two stages may be frozen.
void train(Device device, bool freeze) {
  auto model = nn::make_model("resnet20", {.classes = 10, .seed = {}, .device = device});
  if (device.is_cpu()) nn::initialize(*model, 1);
  if (freeze)
    for (const char* part : {"conv1", "bn1", "layer1", "layer2"}) model->freeze(part);
  optim::AdamW adamw(model->named_parameters());
  optim::Ema ema(*model);
  TrainStep step(*model, adamw, {.clip = {.norm = 1}, .ema = &ema});
  Tensor images = zeros({4, 32, 32, 3}, {.device = device});
  Tensor labels = zeros({4}, {.dtype = Dtype::int64, .device = device});
  for (int i = 0; i < 2; ++i)
    step.run(0.01, [&] { return cross_entropy((*model)(images), labels); });
}

memory::AccountStats measured(bool freeze) {
  auto account = memory::capped_host_account("caching");
  memory::AccountScope scope(account);
  train(Device::cpu(), freeze);
  return account->stats();
}

int64_t of(const memory::AccountStats& stats, memory::Category category) {
  return stats.by_category_at_peak[static_cast<size_t>(category)];
}

}  // namespace

TEST_CASE("frozen parts: parameters, running statistics and their averages keep their bits") {
  Problem problem = random_problem(4, 8, 4);
  SmallNet model;
  model.freeze("conv1");
  model.freeze("bn1");
  optim::AdamW adamw(model.named_parameters());
  TrainStep step(model, adamw);
  auto values = [&](const std::string& prefix) {
    std::vector<nn::NamedTensor> tensors = model.named_parameters();
    for (const nn::NamedTensor& buffer : model.named_buffers()) tensors.push_back(buffer);
    std::erase_if(tensors, [&](const auto& t) { return !nn::is_at_or_below(t.name, prefix); });
    return values_of(tensors);
  };
  auto conv1 = values("conv1"), bn1 = values("bn1"), bn2 = values("bn2"), fc = values("fc");
  step.begin();
  step.micro_step([&] { return cross_entropy(model(problem.images), problem.labels); });
  CHECK_FALSE(model.conv1.weight.grad().defined());
  CHECK_FALSE(model.bn1.bias.grad().defined());
  CHECK(model.conv2.weight.grad().defined());
  step.prepare(0.1);
  step.commit();
  CHECK(values("conv1") == conv1);
  CHECK(values("bn1") == bn1);
  CHECK(values("bn2") != bn2);
  CHECK(values("fc") != fc);
}

TEST_CASE("frozen parts: no gradients, moments, averages and activations are held for them") {
  memory::AccountStats all = measured(false), part = measured(true);
  using memory::Category;
  CHECK(of(part, Category::parameters) == of(all, Category::parameters));
  // Layer 3 and the classifier have three quarters of the parameters.
  CHECK(of(part, Category::optimizer) < 0.8 * static_cast<double>(of(all, Category::optimizer)));
  CHECK(of(part, Category::activations) < of(all, Category::activations) / 2);
  CHECK(of(part, Category::other) < of(all, Category::other));  // shadows of running statistics
  CHECK(part.peak_live < all.peak_live / 2);
}

TEST_CASE("frozen parts: what the meta device predicts is what the step holds, to the byte") {
  for (bool freeze : {false, true}) {
    CAPTURE(freeze);
    StepMemory predicted =
        measure_on_meta(memory::planner_named("caching"), [&](const auto&) { train(Device::meta(), freeze); });
    memory::AccountStats got = measured(freeze);
    CHECK(got.peak_live == predicted.peak_live);
    CHECK(got.peak_reserved == predicted.peak_reserved);
  }
}

TEST_CASE("frozen parts: a module that starts to train after the step was made is refused") {
  Problem problem = random_problem(4, 8, 4);
  SmallNet model;
  model.freeze("bn1");
  optim::AdamW adamw(model.named_parameters());
  TrainStep step(model, adamw);
  auto loss = [&] { return cross_entropy(model(problem.images), problem.labels); };
  step.run(0.01, loss);
  model.eval();
  model.train();  // leaves frozen modules alone
  step.run(0.01, loss);
  model.unfreeze("bn1");
  auto before = values_of(model.named_buffers());
  CHECK_THROWS_WITH_AS(step.run(0.01, loss),
                       "train step: the module of 'bn1.running_mean' is in training mode and was "
                       "not when the step was made: make another TrainStep",
                       ValueError);
  CHECK(values_of(model.named_buffers()) == before);
  CHECK(step.updates() == 2);
}
