// The penalty on the scales of batch norms: its value and gradients, the same however an update is
// cut, its bytes as predicted, and that it makes scales small.
#include "brim/train/scale_penalty.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/sum.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/train/plain_net.h"
#include "brim/tests/train/values.h"
#include "brim/train/trainer.h"

using namespace brim;
using namespace brim::testing;

namespace {

struct Run {
  std::vector<double> losses, scales;
  memory::AccountStats memory;
  StepMemory predicted;
};

Run train(double penalty, int64_t micro_batch, int64_t steps = 4) {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  auto model = nn::make_model("resnet20", {.classes = 4, .dtype = Dtype::float64});
  model->eval();  // running statistics: parts of an update do not depend on each other
  optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});
  RandomBatches source({.images = 6, .batches = 4, .size = 8});
  Trainer trainer(*model, sgd, {source},
                  {.steps = steps,
                   .schedule = optim::ConstantSchedule{.rate = 0.01},
                   .input = {.dtype = Dtype::float64},
                   .micro_batch = micro_batch,
                   .planner = "arena",
                   .scale_penalty = penalty});
  Run run;
  trainer.on_step = [&](const StepReport& step) { run.losses.push_back(step.loss); };
  trainer.on_replan = [&](const ReplanReport& report) { run.predicted = report.predicted; };
  trainer.run();
  run.memory = account->stats();
  run.scales = doubles_of({{"bn1.weight", model->tensor("layer2.1.bn1.weight")}});
  return run;
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += std::abs(value);
  return sum;
}

}  // namespace

TEST_CASE("scale penalty: the sum of the magnitudes, and its gradient the sign") {
  auto model = nn::make_model("resnet20", {.classes = 4});
  const Tensor scale = model->tensor("bn1.weight");
  std::vector<float> values(16);
  for (size_t i = 0; i < 16; ++i) values[i] = static_cast<float>(i) - 4;
  copy_into(scale, from_vector(values, {16}));
  double all = 0;
  for (const nn::NamedModule& part : model->named_modules())
    if (auto* norm = dynamic_cast<nn::BatchNorm2d*>(&part.module))
      all += sum_of(norm->weight.to_vector<double>());
  Tensor loss = with_scale_penalty(full({}, 2.0), *model, 0.5);
  CHECK(loss.item<double>() == doctest::Approx(2 + 0.5 * all));
  backward(loss);
  const std::vector<float> gradient = scale.grad().to_vector<float>();
  for (size_t i = 0; i < 16; ++i) CHECK(gradient[i] == (i < 4 ? -0.5f : i == 4 ? 0.0f : 0.5f));
  CHECK_FALSE(model->tensor("bn1.bias").grad().defined());
  Tensor none = full({}, 2.0);
  CHECK(with_scale_penalty(none, *model, 0).is_same(none));
  model->freeze("");
  CHECK(with_scale_penalty(none, *model, 1).is_same(none));
}

TEST_CASE("scale penalty: the same in one part and in several, within the bytes predicted") {
  const Run whole = train(0.01, 6), parts = train(0.01, 4), without = train(0, 6);
  CHECK(largest_difference(whole.losses, parts.losses) < 1e-9);
  CHECK(largest_difference(whole.scales, parts.scales) < 1e-9);
  CHECK(whole.losses.front() > without.losses.front() + 1);  // of 688 scales of 1
  for (const Run& run : {whole, parts}) {
    CHECK(run.memory.mismatches == 0);
    CHECK(run.memory.peak_reserved == run.predicted.peak_reserved);
  }
}

TEST_CASE("scale penalty: scales become smaller by what momentum makes of it") {
  // In update t the penalty has moved a scale by rate * penalty * (1 + 0.9 + ... + 0.9^(t - 1)).
  double moved = 0, velocity = 0;
  for (int step = 0; step < 40; ++step) moved += 0.01 * (velocity = 0.9 * velocity + 0.05);
  const double difference = sum_of(train(0, 6, 40).scales) - sum_of(train(0.05, 6, 40).scales);
  CHECK(difference == doctest::Approx(32 * moved).epsilon(0.05));
}

TEST_CASE("scale penalty: less than none is refused") {
  CHECK(contains(error_text<ValueError>([] { train(-1, 6); }),
                 "expected a scale penalty from 0, got -1"));
}
