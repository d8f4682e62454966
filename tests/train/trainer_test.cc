#include "brim/train/trainer.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/data/shapes.h"
#include "brim/optim/sgd.h"
#include "brim/tests/train/small_net.h"

using namespace brim;
using namespace brim::testing;

namespace {

data::LoaderOptions loader_options(int workers) {
  return {.batch = 8,
          .size = 16,
          .workers = workers,
          .seed = 1,
          .augment = {.kind = data::Augment::Kind::padded_crop, .flip = true}};
}

// Losses of the steps, then of the evaluations.
std::vector<double> train(int workers, uint64_t seed = 1) {
  using Split = data::ShapesOptions::Split;
  auto images = std::make_shared<data::Shapes>(
      data::ShapesOptions{.split = Split::train, .count = 44, .size = 16});
  auto more = std::make_shared<data::Shapes>(
      data::ShapesOptions{.split = Split::val, .count = 20, .size = 16});
  struct TenClasses final : nn::Module {
    SmallNet body{0.1};
    nn::Linear out{4, 10};
    TenClasses() { register_modules({{"body", body}, {"out", out}}); }
    Tensor forward(Tensor x) override { return out(body(std::move(x))); }
  } model;
  nn::initialize(model, seed);
  optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
  auto options = loader_options(workers);
  options.seed = seed;
  data::Loader training(images, options);
  options.shuffle = false;
  data::Loader validation(more, options);
  LoaderSource source(training);
  Trainer trainer(model, sgd,
                  {.steps = 9, .seed = seed, .schedule = optim::ConstantSchedule{.rate = 0.05}});
  std::vector<double> numbers, evaluations;
  trainer.on_step = [&](const StepReport& report) { numbers.push_back(report.loss); };
  trainer.on_epoch = [&](const EpochReport& report) {
    evaluations.push_back(report.validation->loss);
    evaluations.push_back(report.validation->accuracy);
  };
  trainer.run(source, &validation);
  numbers.insert(numbers.end(), evaluations.begin(), evaluations.end());
  return numbers;
}

}  // namespace

TEST_CASE("the same seed gives the same bits, whatever the number of loader workers") {
  auto expected = train(0);
  CHECK(expected.size() == 9 + 2 * 2);  // epochs of six batches: one whole, one cut short
  for (int workers : {1, 2, 5}) CHECK(train(workers) == expected);
  CHECK(train(2, 7) != expected);
}

TEST_CASE("a trainer wants steps to do") {
  SmallNet model;
  optim::Sgd sgd(model.named_parameters());
  CHECK_THROWS_AS(Trainer(model, sgd, {.steps = 0}), ValueError);
}

TEST_CASE("correct answers are counted by the largest logit, and NaN is refused") {
  Tensor logits = from_vector<float>({0, 2, 1, 3, 3, 1}, {2, 3});
  const std::vector<int64_t> labels{1, 0};
  CHECK(count_correct(logits, labels) == 2);
  logits.data<float>()[0] = std::nanf("");
  CHECK_THROWS_AS(count_correct(logits, labels), ValueError);
}
