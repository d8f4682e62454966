// An update in several micro-batches is the update of the whole batch: gradients, losses, and batch
// norm's running statistics as far as they can be.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/ops/ops.h"
#include "brim/optim/sgd.h"
#include "brim/tests/train/plain_net.h"
#include "brim/tests/train/small_net.h"
#include "brim/tests/train/values.h"
#include "brim/train/trainer.h"

using namespace brim;
using namespace brim::testing;

namespace {

struct Case {
  int64_t ignored = 0;
  bool class_weights = false;
  double label_smoothing = 0;
};

const Case kCases[] = {{}, {.ignored = 5}, {.class_weights = true}, {5, true, 0.1}};

TrainerOptions options_of(const Case& c, int64_t micro_batch) {
  TrainerOptions options{.steps = 10,
                         .seed = 4,
                         .schedule = optim::ConstantSchedule{.rate = 0.1},
                         .label_smoothing = c.label_smoothing,
                         .input = {.dtype = Dtype::float64},
                         .micro_batch = micro_batch};
  if (c.class_weights) options.class_weights = from_vector<double>({1, 0.25, 2, 0.5}, {4});
  return options;
}

struct Run {
  std::vector<double> losses, parameters;
};

Run train(const Case& c, int64_t micro_batch) {
  PlainNet model;
  optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
  RandomBatches source({.images = 11, .ignored = c.ignored});
  Trainer trainer(model, sgd, {source}, options_of(c, micro_batch));
  Run run;
  trainer.on_step = [&](const StepReport& step) {
    CHECK(step.images == 11);
    run.losses.push_back(step.loss);
  };
  trainer.run();
  run.parameters = doubles_of(model.named_parameters());
  return run;
}

// The gradients of one update, as the optimizer gets them.
std::vector<double> gradients(const Case& c, int64_t micro_batch) {
  PlainNet model;
  optim::Sgd sgd(model.named_parameters());
  TrainStep step(model, sgd, {.seed = 4});
  RandomBatches source({.images = 11, .batches = 1, .ignored = c.ignored});
  source.start_epoch(0);
  const HostBatch batch = *source.next();
  const TrainerOptions options = options_of(c, micro_batch);
  std::vector<double> weights;
  if (c.class_weights) weights = options.class_weights.to_vector<double>();
  const double weight = loss_weight(batch.labels, weights, options);
  step.begin();
  for (const Part& part : parts_of(batch.count(), micro_batch))
    step.micro_step(
        [&] {
          return training_loss(model, batch.part(part).upload(Device::cpu()), options,
                               Reduction::sum);
        },
        {.weight = 1 / weight, .first_sample = static_cast<uint64_t>(part.first)});
  std::vector<double> all;
  for (const nn::NamedTensor& parameter : model.named_parameters()) {
    auto values = parameter.tensor.grad().to_vector<double>();
    all.insert(all.end(), values.begin(), values.end());
  }
  step.undo();
  return all;
}

// The gradients of the mean over the whole batch, from `backward` alone.
std::vector<double> gradients_of_mean(const Case& c) {
  PlainNet model;
  RandomBatches source({.images = 11, .batches = 1, .ignored = c.ignored});
  source.start_epoch(0);
  autograd::RandomScope random(/*seed=*/4, /*update=*/0);
  backward(training_loss(model, source.next()->upload(Device::cpu()), options_of(c, 0)));
  std::vector<double> all;
  for (const nn::NamedTensor& parameter : model.named_parameters()) {
    auto values = parameter.tensor.grad().to_vector<double>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace

TEST_CASE("micro-batches add up to the gradients of the batch's mean, uneven ones too") {
  for (const Case& c : kCases) {
    CAPTURE(c.ignored);
    CAPTURE(c.class_weights);
    const std::vector<double> whole = gradients_of_mean(c);
    CHECK(std::ranges::any_of(whole, [](double g) { return std::abs(g) > 1e-3; }));
    // 4, 4 and 3 images; 11 of one, some of them with no label that counts.
    for (int64_t micro_batch : {11, 6, 4, 1})
      CHECK(largest_difference(gradients(c, micro_batch), whole) < 1e-12);
  }
}

TEST_CASE("losses and weights of a training do not depend on how its updates are cut") {
  for (const Case& c : kCases) {
    const Run whole = train(c, 0);
    CHECK(whole.losses.size() == 10);
    for (int64_t micro_batch : {11, 4, 2}) {
      const Run parts = train(c, micro_batch);
      CHECK(largest_difference(parts.losses, whole.losses) < 1e-12);
      CHECK(largest_difference(parts.parameters, whole.parameters) < 1e-12);
    }
  }
  CHECK(largest_difference(train({}, 0).losses, train({.label_smoothing = 0.1}, 0).losses) > 1e-3);
}

TEST_CASE("an update in which no label counts is refused, and nothing has changed") {
  PlainNet model;
  const std::vector<double> before = model.fc.weight.to_vector<double>();
  optim::Sgd sgd(model.named_parameters());
  RandomBatches source({.images = 3, .ignored = 3});
  Trainer trainer(model, sgd, {source}, options_of({}, 2));
  CHECK_THROWS_WITH_AS(trainer.run(), doctest::Contains("the labels of update 0 count nothing"),
                       ValueError);
  CHECK(model.fc.weight.to_vector<double>() == before);
}

namespace {

struct Statistics {
  std::vector<double> mean, variance;
};

// Of the first layer's batch norm, whose input does not depend on other layers, after two updates.
Statistics statistics(int64_t micro_batch, bool pooled) {
  nn::BatchNorm2d norm(3);
  nn::initialize(norm, /*seed=*/1);
  norm.to(Dtype::float64);
  fill(norm.running_mean, 0.5);
  optim::Sgd sgd(norm.named_parameters());
  TrainStep step(norm, sgd);
  for (uint64_t update = 0; update < 2; ++update) {
    Tensor x = uniform({7, 2, 2, 3}, -1, 3, RandomKey{update}, {.dtype = Dtype::float64});
    step.begin();
    for (const Part& part : parts_of(7, micro_batch))
      step.micro_step(
          [&] {
            return mean(norm(slice(x, 0, {.begin = part.first, .end = part.first + part.count})));
          },
          {.first_sample = static_cast<uint64_t>(part.first),
           .samples = part.count,
           .update_samples = pooled ? 7 : 0});
    step.prepare(0);
    step.commit();
  }
  return {norm.running_mean.to_vector<double>(), norm.running_var.to_vector<double>()};
}

}  // namespace

TEST_CASE("running statistics move once an update, by those of all its samples") {
  const Statistics whole = statistics(7, true);
  CHECK(whole.mean == statistics(7, false).mean);
  CHECK(whole.variance == statistics(7, false).variance);
  for (int64_t micro_batch : {6, 3, 1}) {
    const Statistics parts = statistics(micro_batch, true);
    CHECK(largest_difference(parts.mean, whole.mean) < 1e-12);
    CHECK(largest_difference(parts.variance, whole.variance) < 1e-12);
    // Each part by itself, as elsewhere: they have gone further.
    CHECK(largest_difference(statistics(micro_batch, false).mean, whole.mean) > 1e-2);
  }
}

TEST_CASE("a part that is not within its update is refused") {
  SmallNet model;
  optim::Sgd sgd(model.named_parameters());
  TrainStep step(model, sgd);
  Problem problem = random_problem(4, 8, 4);
  for (uint64_t first : {uint64_t{5}, uint64_t{9}, ~uint64_t{0}}) {
    step.begin();
    CHECK_THROWS_WITH_AS(
        step.micro_step([&] { return cross_entropy(model(problem.images), problem.labels); },
                        {.first_sample = first, .samples = 4, .update_samples = 8}),
        doctest::Contains("expected a part of the update's 8 samples, got 4 from"), ValueError);
  }
}
