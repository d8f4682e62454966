#include "brim/train/trainer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "brim/data/shapes.h"
#include "brim/ops/ops.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/tests/train/grey.h"
#include "brim/tests/train/plain_net.h"
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

// What was asked of the account, in order.
struct Requests final : memory::Recorder {
  void allocated(const memory::Block& block) override { log.push_back(block.bytes); }
  void released(const memory::Block& block) noexcept override { log.push_back(-block.bytes); }
  std::vector<int64_t> log;
};

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
  Trainer trainer(model, sgd, {source, &validation},
                  {.steps = 9, .seed = seed, .schedule = optim::ConstantSchedule{.rate = 0.05}});
  std::vector<double> numbers, evaluations;
  trainer.on_step = [&](const StepReport& report) { numbers.push_back(report.loss); };
  trainer.on_epoch = [&](const EpochReport& report) {
    evaluations.push_back(report.validation->loss);
    evaluations.push_back(report.validation->accuracy);
  };
  trainer.run();
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

TEST_CASE("device bytes are asked for in the same order, whatever the number of loader workers") {
  auto requests = [](int workers) {
    auto account = memory::capped_host_account("caching");
    memory::AccountScope scope(account);
    Requests recorder;
    account->set_recorder(&recorder);
    train(workers);
    account->set_recorder(nullptr);
    return recorder.log;
  };
  auto expected = requests(0);
  CHECK(expected.size() > 1000);
  for (int workers : {1, 5}) CHECK(requests(workers) == expected);
}

namespace {

// Logits (0, mean of the image - threshold); notes its mode.
struct Threshold final : nn::Module {
  Threshold() { register_modules({{"frozen", frozen}, {"drop", drop}}); }
  Tensor forward(Tensor x) override {
    trained = trained || training();
    Tensor light = sum(global_avg_pool(std::move(x)), {1}, {.keepdim = true});
    light = mul(add(std::move(light), full({}, -3 * 15)), full({}, 1.0 / 3));
    return concat({zeros(light.shape()), light}, 1);
  }
  nn::Dropout frozen{0.5}, drop{0.5};
  bool trained = false;
};

}  // namespace

TEST_CASE("evaluation: means over a smaller last batch, in eval mode, and the modes come back") {
  // Logits (0, 10 i - 15): images 0 and 1 are called dark, the others light.
  const std::vector<int64_t> labels{0, 1, 1, 0, 1};
  data::Loader loader(std::make_shared<Grey>(labels),
                      {.batch = 2, .size = 8, .workers = 0, .shuffle = false});
  InputOptions input{.mean = {0, 0, 0}, .deviation = {1 / 255.f, 1 / 255.f, 1 / 255.f}};
  Threshold model;
  model.frozen.eval();
  std::vector<int64_t> seen;
  Evaluation result = evaluate(model, loader, input, [&](int64_t done, int64_t all) {
    CHECK(all == 5);
    seen.push_back(done);
  });
  double loss = 0;
  for (int i = 0; i < 5; ++i) {
    double logit = 10.0 * i - 15;
    loss += std::log1p(std::exp(labels[static_cast<size_t>(i)] == 1 ? -logit : logit)) / 5;
  }
  CHECK(result.images == 5);
  CHECK(result.accuracy == doctest::Approx(3.0 / 5));
  CHECK(result.top5 == 1);  // of two classes
  CHECK(result.loss == doctest::Approx(loss).epsilon(1e-5));
  CHECK(seen == std::vector<int64_t>{2, 4, 5});
  CHECK(!model.trained);
  CHECK(model.training());
  CHECK(model.drop.training());
  CHECK(!model.frozen.training());
}

TEST_CASE("evaluation: top-5 counts the labels among the five largest logits") {
  // Logits 0, 1, ..., 6 for every image: label 6 comes first, label 0 last.
  struct Ramp final : nn::Module {
    Tensor forward(Tensor x) override {
      std::vector<float> rows;
      for (int64_t i = 0; i < x.size(0) * 7; ++i) rows.push_back(static_cast<float>(i % 7));
      return from_vector(rows, {x.size(0), 7});
    }
  } model;
  auto images = std::make_shared<Grey>(std::vector<int64_t>{6, 2, 1, 0});
  images->names = {"a", "b", "c", "d", "e", "f", "g"};
  data::Loader loader(images, {.batch = 3, .size = 8, .workers = 0, .shuffle = false});
  Evaluation result = evaluate(model, loader, {});
  CHECK(result.accuracy == 1.0 / 4);
  CHECK(result.top5 == 2.0 / 4);
}

TEST_CASE("evaluation: images that cannot be read do not count, and there must be others") {
  const std::vector<int64_t> labels{0, 1, 1, 0, 1};
  InputOptions input{.mean = {0, 0, 0}, .deviation = {1 / 255.f, 1 / 255.f, 1 / 255.f}};
  data::LoaderOptions options{.batch = 2, .size = 8, .workers = 0, .shuffle = false};
  auto result_of = [&](std::vector<int64_t> given, std::set<int64_t> bad) {
    Threshold model;
    options.bad_image = data::BadImage::ignore;
    data::Loader loader(std::make_shared<Grey>(std::move(given), std::move(bad)), options);
    return evaluate(model, loader, input);
  };
  Evaluation without_the_last = result_of({0, 1, 1, 0}, {}), skipped = result_of(labels, {4});
  CHECK(skipped.images == 4);
  CHECK(skipped.accuracy == without_the_last.accuracy);
  CHECK(skipped.loss == without_the_last.loss);
  CHECK(result_of(labels, {1, 3}).accuracy == 1);  // the two that are not what they look like
  CHECK_THROWS_WITH_AS(
      result_of(labels, {0, 1, 2, 3, 4}),
      "evaluate: none of the 5 images can be read; the first error: grey: '0' is bad", FileError);
}

TEST_CASE("with averages a trainer evaluates them, and the norms of gradients are told") {
  auto images = std::make_shared<data::Shapes>(data::ShapesOptions{.count = 24, .size = 16});
  struct TenClasses final : nn::Module {
    SmallNet body{0};
    nn::Linear out{4, 10};
    TenClasses() {
      register_modules({{"body", body}, {"out", out}});
      nn::initialize(*this, 1);
    }
    Tensor forward(Tensor x) override { return out(body(std::move(x))); }
  } model;
  optim::Sgd sgd(model.named_parameters());
  optim::Ema ema(model, {.decay = 0.5});
  data::Loader training(images, loader_options(0)), validation(images, loader_options(0));
  LoaderSource source(training);
  Trainer trainer(model, sgd, {source, &validation},
                  {.steps = 3,
                   .schedule = optim::ConstantSchedule{.rate = 0.05},
                   .clip = {.norm = 1e-3},
                   .ema = &ema});
  int64_t told = 0;
  trainer.on_step = [&](const StepReport& step) { told += step.gradient_norm.value() > 1e-3; };
  double evaluated = 0;
  trainer.on_epoch = [&](const EpochReport& epoch) { evaluated = epoch.validation->loss; };
  trainer.run();
  CHECK(told == 3);  // before clipping
  CHECK(ema.updates() == 3);
  CHECK_FALSE(ema.in_use());
  CHECK(evaluate(model, validation, {}).loss != evaluated);
  optim::EmaScope averaged(ema);
  CHECK(evaluate(model, validation, {}).loss == evaluated);
}

namespace {

struct Watched {
  data::LoaderOptions options{.batch = 4, .size = 8, .workers = 0, .shuffle = false};
  std::shared_ptr<Grey> images =
      std::make_shared<Grey>(std::vector<int64_t>{0, 1, 1, 0, 1, 0, 1, 1});
  data::Loader training{images, options}, validation{images, options};
  LoaderSource source{training};
  PlainNet model{Dtype::float32};  // no running statistics that change
  optim::Sgd sgd{model.named_parameters()};
};

}  // namespace

TEST_CASE(
    "a training ends when the accuracy was not better for so many epochs, and keeps the best") {
  Watched w;
  // With a rate of 0 no epoch is better than the first.
  Trainer trainer(w.model, w.sgd, {w.source, &w.validation},
                  {.steps = 100, .schedule = optim::ConstantSchedule{.rate = 0}, .early_stop = 3});
  std::vector<int64_t> best;
  int64_t epochs = 0;
  trainer.on_best = [&](const EpochReport& epoch) { best.push_back(epoch.epoch); };
  trainer.on_epoch = [&](const EpochReport& epoch) {
    ++epochs;
    CHECK(epoch.best == (epoch.epoch == 1));
  };
  trainer.run();
  CHECK(epochs == 4);
  CHECK(best == std::vector<int64_t>{1});
  CHECK_THROWS_WITH_AS(Trainer(w.model, w.sgd, {w.source}, {.steps = 1, .early_stop = 1}),
                       doctest::Contains("early_stop needs images to validate"), ValueError);
}

TEST_CASE("stopped after its last update, a training that goes on still evaluates, once") {
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), {});
  std::vector<double> accuracies;
  for (int run = 0; run < 3; ++run) {
    Watched w;
    Trainer trainer(w.model, w.sgd, {w.source, &w.validation},
                    {.steps = 3, .checkpoints = &checkpoints});
    trainer.on_epoch = [&](const EpochReport& epoch) {
      accuracies.push_back(epoch.validation->accuracy);
      CHECK(epoch.epoch == static_cast<int64_t>(accuracies.size()));
    };
    trainer.should_stop = [&] { return run == 0 && trainer.updates() == 3; };
    trainer.resume();
    trainer.run();
    CHECK(trainer.stopped() == (run == 0));
    CHECK(trainer.updates() == 3);
  }
  // Two updates an epoch: the first whole, the second cut short; nothing is left for the third run.
  CHECK(accuracies.size() == 2);
}

TEST_CASE("with the update fused into backward a trainer learns the same") {
  auto train = [](bool fused, int64_t& peak) {
    auto account = memory::capped_host_account("direct");
    memory::AccountScope scope(account);
    SmallNet model;
    optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
    SyntheticSource source({.count = 2, .size = 4, .classes = 4}, /*batches=*/5);
    Trainer trainer(model, sgd, {source},
                    {.steps = 5,
                     .schedule = optim::ConstantSchedule{.rate = 0.1},
                     .planner = "arena",
                     .fused_update = fused});
    std::vector<double> losses;
    trainer.on_step = [&](const StepReport& step) { losses.push_back(step.loss); };
    trainer.on_replan = [&](const ReplanReport& plan) { peak = plan.predicted.peak_reserved; };
    trainer.run();
    CHECK(account->stats().mismatches == 0);
    CHECK(account->stats().reserved == peak);
    return losses;
  };
  int64_t fused = 0, whole = 0;
  CHECK(train(true, fused) == train(false, whole));
  CHECK(fused <= whole);
  SmallNet model;
  optim::Sgd sgd(model.named_parameters());
  SyntheticSource source({.count = 4, .size = 8, .classes = 4}, 1);
  CHECK_THROWS_WITH_AS(
      Trainer(model, sgd, {source}, {.steps = 1, .micro_batch = 2, .fused_update = true}),
      doctest::Contains("a fused update takes all its images at once"), ValueError);
}

TEST_CASE("a trainer wants steps to do") {
  SmallNet model;
  optim::Sgd sgd(model.named_parameters());
  SyntheticSource source({.count = 4, .size = 8, .classes = 4}, 1);
  CHECK_THROWS_AS(Trainer(model, sgd, {source}, {.steps = 0}), ValueError);
}

TEST_CASE("correct answers are counted among the largest logits, and NaN is refused") {
  Tensor logits = from_vector<float>({0, 2, 1, 3, 3, 1}, {2, 3});
  const std::vector<int64_t> labels{1, 0};
  auto count = [&](std::vector<int64_t> given, int64_t k) {
    return count_correct(logits, given, k);
  };
  CHECK(count_correct(logits, labels) == 2);
  CHECK(count({2, 1}, 1) == 0);  // of two that are equal the first counts
  CHECK(count({2, 1}, 2) == 2);
  CHECK(count({0, 2}, 2) == 0);
  CHECK(count({0, 2}, 3) == 2);
  CHECK(count({0, 2}, 5) == 2);  // more than there are classes
  CHECK(count({data::kIgnoredLabel, 3}, 5) == 0);
  CHECK_THROWS_AS(count({0, 0}, 0), ValueError);
  logits.data<float>()[0] = std::nanf("");
  CHECK_THROWS_AS(count_correct(logits, labels), ValueError);
}
