// A class for every pixel: U-Net learns to find what is drawn, with the loss of classifiers on
// labels [N,H,W], in a `TrainStep`.
#include "brim/nn/models/unet.h"

#include <doctest/doctest.h>

#include "brim/autograd/op.h"
#include "brim/memory/arena_planner.h"
#include "brim/ops/cross_entropy.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/formula_numbers.h"
#include "brim/train/recompute_plan.h"
#include "brim/train/rehearsed_plan.h"
#include "brim/train/train_step.h"

using namespace brim;

namespace {

constexpr int64_t kImages = 8, kSize = 24;

struct Pictures {
  Tensor images, labels;
};

// Noise in [-2, 2), and a square of it that is brighter by 0.7. A single pixel tells where it is
// above 2, or below -1.3, in one of three channels, and otherwise nothing: its neighbours do.
Pictures draw(const std::string& key) {
  std::vector<double> noise = testing::formula_numbers(key, kImages * kSize * kSize * 3);
  std::vector<double> place = testing::formula_numbers(key + " place", kImages * 2);
  std::vector<int64_t> labels(kImages * kSize * kSize, 0);
  for (int64_t n = 0; n < kImages; ++n) {
    auto start = [&](int64_t i) {
      return static_cast<int64_t>((place[static_cast<size_t>(2 * n + i)] + 1) / 2 * kSize / 2);
    };
    for (int64_t h = start(0); h < start(0) + kSize / 2; ++h)
      for (int64_t w = start(1); w < start(1) + kSize / 2; ++w)
        labels[static_cast<size_t>((n * kSize + h) * kSize + w)] = 1;
  }
  std::vector<float> pixels;
  for (size_t i = 0; i < noise.size(); ++i)
    pixels.push_back(static_cast<float>(2 * noise[i] + 0.7 * static_cast<double>(labels[i / 3])));
  return {from_vector(pixels, {kImages, kSize, kSize, 3}),
          from_vector(labels, {kImages, kSize, kSize})};
}

double accuracy(nn::Module& model, const Pictures& pictures) {
  autograd::NoGradScope no_grad;
  model.eval();
  std::vector<float> scores = model(pictures.images).to_vector<float>();
  std::vector<int64_t> labels = pictures.labels.to_vector<int64_t>();
  double right = 0;
  for (size_t i = 0; i < labels.size(); ++i)
    right += (scores[2 * i + 1] > scores[2 * i]) == (labels[i] == 1);
  model.train();
  return right / static_cast<double>(labels.size());
}

// Of pictures that are no squares.
constexpr int64_t kBatch = 4, kHeight = 24, kWidth = 40;

std::shared_ptr<nn::UNet> small_unet() {
  return std::make_shared<nn::UNet>(
      nn::UNetOptions{.classes = 3, .channels = 8, .depth = 2, .bilinear = true});
}

std::unique_ptr<optim::Optimizer> momentum(const nn::Module& net) {
  return std::make_unique<optim::Sgd>(net.named_parameters(), optim::SgdOptions{.momentum = 0.9});
}

Pictures empty_pixels(int64_t images, Device device) {
  return {empty({images, kHeight, kWidth, 3}, {.device = device}),
          empty({images, kHeight, kWidth}, {.dtype = Dtype::int64, .device = device})};
}

void fill(const Tensor& images, const Tensor& labels, const std::string& key) {
  std::ranges::copy(testing::formula_numbers(key, images.numel()), images.data<float>());
  for (int64_t i = 0; i < labels.numel(); ++i) labels.data<int64_t>()[i] = i % 3;
  for (const Tensor& tensor : {images, labels}) tensor.storage()->note_write("test");
}

RehearsalOptions rehearsal_of_pixels() {
  return {.make_model = [] { return small_unet(); },
          .make_updating =
              [](nn::Module& net) {
                return Updating{momentum(net), nullptr};
              },
          .trainer = {.steps = 2},
          .batch = kBatch,
          .updates = 2,
          .loss =
              [](nn::Module& net, int64_t images) {
                auto [batch, labels] = empty_pixels(images, Device::meta());
                return cross_entropy(net(std::move(batch)), std::move(labels));
              }};
}

struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<float>> state;
  memory::AccountStats stats;
};

// Four updates under the arena, capped at what was predicted.
Trained train_pixels(const RehearsalOptions& options, const RehearsedPlan& plan) {
  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(plan.predicted.peak_reserved),
      memory::arena_planner(plan.plan));
  memory::AccountScope scope(account);
  Trained result;
  {
    std::shared_ptr<nn::UNet> net = small_unet();
    nn::initialize(*net, 1);
    auto sgd = momentum(*net);
    TrainStep step(*net, *sgd, {.recompute = options.trainer.recompute});
    for (int i = 0; i < 4; ++i) {
      auto loss = [&] {
        auto [images, labels] = empty_pixels(kBatch, Device::cpu());
        fill(images, labels, "pixels " + std::to_string(i));
        return cross_entropy((*net)(std::move(images)), std::move(labels));
      };
      result.losses.push_back(step.run(0.01, loss, {.samples = kBatch, .update_samples = kBatch}));
    }
    for (const auto& named : net->named_parameters())
      result.state.push_back(named.tensor.to_vector<float>());
  }
  result.stats = account->stats();
  return result;
}

}  // namespace

TEST_CASE("unet: planned with a loss of its own, it holds what was predicted, with the same bits") {
  TrainingSetup setup{rehearsal_of_pixels(), "arena"};
  auto plan_of = [](const RehearsalOptions& options) {
    return plan_on_meta([&](const auto& state_is_held) { rehearse(options, state_is_held); });
  };
  const RehearsedPlan keeping = plan_of(setup.rehearsal);
  const Trained kept = train_pixels(setup.rehearsal, keeping);
  CHECK(kept.stats.peak_reserved == keeping.predicted.peak_reserved);
  CHECK(kept.stats.mismatches == 0);
  for (int64_t share : {80, 60}) {
    CAPTURE(share);
    const int64_t limit = keeping.predicted.peak_reserved / 100 * share;
    const RecomputeChoice choice = choose_recomputation(setup, limit);
    REQUIRE(choice.fits);
    CHECK(choice.dropped > 0);
    RehearsalOptions options = setup.rehearsal;
    options.trainer.recompute = choice.recompute;
    const RehearsedPlan dropping = plan_of(options);
    CHECK(dropping.predicted.peak_reserved <= limit);
    const Trained dropped = train_pixels(options, dropping);
    CHECK(dropped.losses == kept.losses);
    CHECK(dropped.state == kept.state);
    CHECK(dropped.stats.peak_reserved == dropping.predicted.peak_reserved);
    CHECK(dropped.stats.peak_live == dropping.predicted.peak_live);
    CHECK(dropped.stats.mismatches == 0);
  }
}

TEST_CASE("rehearsal: a loss of its own has no evaluation") {
  RehearsalOptions options = rehearsal_of_pixels();
  options.evaluated = 4;
  CHECK(testing::contains(testing::error_text<ValueError>([&] {
                            predicted_memory({options, "direct"});
                          }),
                          "expected no evaluation with a loss of its own, got one of 4 images"));
}

TEST_CASE("unet: learns which pixels are drawn, and keeps what it holds between updates") {
  for (bool bilinear : {false, true}) {
    CAPTURE(bilinear);
    nn::UNet net({.classes = 2, .channels = 8, .depth = 2, .bilinear = bilinear});
    nn::initialize(net, 1);
    optim::Sgd sgd(net.named_parameters(), {.momentum = 0.9});
    TrainStep step(net, sgd);
    Pictures others = draw("validation");
    int64_t live = 0;
    for (int i = 0; i < 60; ++i) {
      {
        Pictures batch = draw("batch " + std::to_string(i));
        step.run(0.05, [&] { return cross_entropy(net(batch.images), batch.labels); },
                 {.samples = kImages});
      }
      int64_t now = memory::account(Device::cpu())->stats().live;
      if (i > 0) CHECK(now == live);
      live = now;
    }
    // A quarter of the pixels is brighter: 0.75 for saying that none is. Of those, 1 - 0.825^3 have
    // a channel above 2: 0.86 for what looks at single pixels.
    double got = accuracy(net, others);
    MESSAGE("accuracy " << got);
    CHECK(got > 0.9);
  }
}

TEST_CASE("unet: pixels without a label count nowhere") {
  nn::UNet net({.classes = 2, .channels = 4, .depth = 1});
  nn::initialize(net, 1);
  Pictures pictures = draw("ignored");
  std::vector<int64_t> labels = pictures.labels.to_vector<int64_t>();
  Tensor rows = net(pictures.images);
  double sum = 0, count = 0;
  std::vector<float> losses =
      cross_entropy(rows, pictures.labels, {.reduction = Reduction::none}).to_vector<float>();
  for (size_t i = 0; i < labels.size(); ++i) {
    if (i % 3 == 0) {
      labels[i] = -100;
      continue;
    }
    sum += losses[i];
    ++count;
  }
  Tensor some = from_vector(labels, pictures.labels.shape());
  CHECK(cross_entropy(rows, some).item<double>() == doctest::Approx(sum / count).epsilon(1e-6));
}
