// Proves what mixup and CutMix make of images and labels against loops over every element, that
// their shares have the Beta distribution and follow from seed and update, and that a step with
// them holds what is predicted.
#include "brim/train/mix.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "brim/autograd/backward.h"
#include "brim/data/synthetic.h"
#include "brim/nn/creation.h"
#include "brim/optim/sgd.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/beta.h"
#include "brim/train/step_memory.h"
#include "brim/train/trainer.h"

using namespace brim;
using namespace brim::testing;

namespace {

Tensor noise_images(int64_t count, int64_t height, int64_t width) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count * height * width * 3));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(mix64(i));
  return from_vector(bytes, {count, height, width, 3});
}

RandomStream stream(uint64_t sample) { return RandomStream(RandomKey{2}, sample); }

}  // namespace

TEST_CASE("mixup: each byte is the rounded mean with its partner's, in its shares") {
  for (int64_t count : {0, 1, 2, 5, 8})
    for (double share : {0.0, 0.25, 0.7, 1.0}) {
      CAPTURE(count);
      CAPTURE(share);
      Tensor images = noise_images(count, 3, 4);
      const auto before = images.to_vector<uint8_t>();
      const Mix mix{.share = std::round(share * 65536) / 65536};
      mix_images(images, mix);
      const auto after = images.to_vector<uint8_t>();
      const size_t each = 3 * 4 * 3;
      for (size_t i = 0; i < after.size(); ++i) {
        const size_t image = i / each, partner = static_cast<size_t>(count) - 1 - image;
        const double other = before[partner * each + i % each];
        CHECK(after[i] == std::floor(mix.share * before[i] + (1 - mix.share) * other + 0.5));
      }
    }
}

TEST_CASE("CutMix: partners exchange the box and nothing else") {
  for (data::Box box : {data::Box{1, 0, 2, 3}, data::Box{0, 0, 5, 4}, data::Box{4, 3, 0, 0}})
    for (int64_t count : {1, 4, 7}) {
      Tensor images = noise_images(count, 4, 5);
      const auto before = images.to_vector<uint8_t>();
      mix_images(images, {.share = 0.5, .box = box});
      const auto after = images.to_vector<uint8_t>();
      const size_t each = 4 * 5 * 3;
      for (size_t i = 0; i < after.size(); ++i) {
        const size_t image = i / each, partner = static_cast<size_t>(count) - 1 - image;
        const int x = static_cast<int>(i % each / 3 % 5), y = static_cast<int>(i % each / 15);
        const bool inside =
            x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height;
        CHECK(after[i] == before[(inside ? partner : image) * each + i % each]);
      }
    }
}

TEST_CASE("labels become the shares of both, and ignored ones nothing") {
  Tensor labels = from_vector<int64_t>({2, 0, -100, 1, 1, 2}, {6});
  for (Dtype dtype : {Dtype::float32, Dtype::float64}) {
    Tensor targets = mix_labels(labels, 3, {.share = 0.75}, {.dtype = dtype});
    CHECK(targets.dtype() == dtype);
    CHECK(targets.shape() == Shape{6, 3});
    // Pairs (2, 2), (0, 1), (ignored, 1).
    CHECK(targets.to_vector<double>() == std::vector<double>{0, 0, 1,        //
                                                             0.75, 0.25, 0,  //
                                                             0, 0.25, 0,     //
                                                             0, 0.75, 0,     //
                                                             0.25, 0.75, 0,  //
                                                             0, 0, 1});
  }
  CHECK_THROWS_WITH_AS(mix_labels(from_vector<int64_t>({0, 3}, {2}), 3, {}),
                       "mix: expected labels from 0 to 2, got 3 at 1", ValueError);
  CHECK_THROWS_AS(mix_labels(zeros({2}), 3, {}), DtypeError);
  CHECK_THROWS_AS(mix_labels(from_vector<int64_t>({0, 1}, {2, 1}), 3, {}), ShapeError);
}

TEST_CASE("a label's share is smoothed, an ignored one's is nothing anywhere") {
  // 4 classes and halves and quarters: exact. Pairs (1, 2), (ignored, 3), (ignored, ignored).
  Tensor labels = from_vector<int64_t>({1, -100, -100, -100, 3, 2}, {6});
  const MixLabelsOptions smoothed{.label_smoothing = 0.5};
  Tensor targets = mix_labels(labels, 4, {.share = 0.75}, smoothed);
  CHECK(targets.to_vector<double>() ==
        std::vector<double>{0.125,   0.5,     0.25,    0.125,    // .125 + .375 at 1, .125 at 2
                            0.03125, 0.03125, 0.03125, 0.15625,  // a quarter of the partner's
                            0,       0,       0,       0,        //
                            0,       0,       0,       0,        //
                            0.09375, 0.09375, 0.09375, 0.46875,  // three quarters of its own
                            0.125,   0.25,    0.5,     0.125});
  CHECK(mix_labels(from_vector<int64_t>({-100, -100}, {2}), 3, {.share = 0.25}, smoothed)
            .to_vector<double>() == std::vector<double>(6, 0));
  CHECK_THROWS_WITH_AS(mix_labels(labels, 4, {}, {.label_smoothing = 1.5}),
                       "mix: expected a label smoothing in [0, 1], got 1.5", ValueError);
}

TEST_CASE("images that are no bytes, and boxes beyond them, are refused") {
  CHECK_THROWS_AS(mix_images(zeros({2, 3, 3, 3}), {}), DtypeError);
  CHECK_THROWS_AS(mix_images(zeros({2, 3, 3}, {.dtype = Dtype::uint8}), {}), ShapeError);
  CHECK_THROWS_WITH_AS(mix_images(noise_images(2, 3, 4), {.box = data::Box{2, 1, 3, 2}}),
                       "mix: expected a box within the images [2,3,4,3], got 3 x 2 at 2,1",
                       ShapeError);
}

TEST_CASE("shares have the moments of the Beta distribution, for small parameters too") {
  constexpr int kDraws = 20'000;
  for (double alpha : {1e-6, 1e-4, 0.2, 0.5, 1.0, 1.5, 8.0}) {
    CAPTURE(alpha);
    double sum = 0, squares = 0, fourth = 0;
    for (uint64_t sample = 0; sample < kDraws; ++sample) {
      RandomStream random = stream(sample);
      const double value = draw_beta(alpha, random);
      REQUIRE(value >= 0);
      REQUIRE(value <= 1);
      const double centred = value - 0.5;
      sum += centred;
      squares += centred * centred;
      fourth += centred * centred * centred * centred;
    }
    // Beta(a, a): variance 1 / (4 (2a + 1)), fourth central moment 3 / (16 (2a + 1) (2a + 3)).
    const double variance = 1 / (4 * (2 * alpha + 1));
    const double moment = 3 / (16 * (2 * alpha + 1) * (2 * alpha + 3));
    CHECK(std::abs(sum / kDraws) < 5 * std::sqrt(variance / kDraws));
    CHECK(std::abs(squares / kDraws - variance) <
          5 * std::sqrt((moment - variance * variance) / kDraws) + 1e-12);
    // The values are within 1/2 of the mean, so the fourth power's variance is below moment / 16.
    CHECK(std::abs(fourth / kDraws - moment) < 5 * std::sqrt(moment / 16 / kDraws));
  }
}

namespace {

/// Over every centre and 1000 shares lambda, which Beta(1, 1) makes uniform.
double mean_box_area(int height, int width) {
  double sum = 0;
  for (int step = 0; step < 1000; ++step) {
    const double side = std::sqrt((step + 0.5) / 1000);
    const int reach_x = static_cast<int>(side * width / 2);
    const int reach_y = static_cast<int>(side * height / 2);
    double columns = 0, rows = 0;
    for (int x = 0; x < width; ++x)
      columns += std::min(x + reach_x, width) - std::max(x - reach_x, 0);
    for (int y = 0; y < height; ++y)
      rows += std::min(y + reach_y, height) - std::max(y - reach_y, 0);
    sum += columns * rows;
  }
  return sum / 1000 / height / width / height / width;
}

}  // namespace

TEST_CASE("a box takes the share that its labels lose, and both kinds come as often") {
  constexpr int kDraws = 4000;
  int cut = 0;
  double area = 0, x = 0;
  for (uint64_t update = 0; update < kDraws; ++update) {
    const RandomKey key = derive(RandomKey{3}, update);
    const Mix mix = draw_mix({.mixup = 0.4, .cutmix = 1}, 20, 30, key);
    const Mix again = draw_mix({.mixup = 0.4, .cutmix = 1}, 20, 30, key);
    CHECK((again.share == mix.share && again.box == mix.box));
    CHECK(mix.share >= 0);
    CHECK(mix.share <= 1);
    if (!mix.box) continue;
    ++cut;
    const data::Box box = *mix.box;
    CHECK((box.x >= 0 && box.y >= 0 && box.x + box.width <= 30 && box.y + box.height <= 20));
    CHECK(std::abs(1 - mix.share - box.width * box.height / 600.0) <= 0x1p-17);
    area += 1 - mix.share;
    x += box.x + box.width / 2.0;
  }
  CHECK(std::abs(cut - kDraws / 2) < 5 * std::sqrt(kDraws / 4.0));
  const double slack = 5 * std::sqrt(1.0 / 4 / cut);  // shares lie in [0, 1]
  CHECK(std::abs(area / cut - mean_box_area(20, 30)) < slack);
  CHECK(std::abs(x / cut - 15) < 5 * std::sqrt(30.0 * 30 / 4 / cut) + 1);
  for (uint64_t update = 0; update < 50; ++update) {
    const RandomKey key = derive(RandomKey{3}, update);
    CHECK_FALSE(draw_mix({.mixup = 1}, 20, 30, key).box);
    CHECK(draw_mix({.cutmix = 1}, 20, 30, key).box);
  }
}

TEST_CASE("parameters that are out of range are named") {
  CHECK_NOTHROW(check_mix({.mixup = 0.2, .cutmix = 1}));
  CHECK_THROWS_WITH_AS(check_mix({.mixup = -1}),
                       "mix: expected mixup to be 0 or between 1e-06 and 1000, got -1", ValueError);
  CHECK_NOTHROW(check_mix({.mixup = 1e-6, .cutmix = 1000}));
  CHECK_THROWS_WITH_AS(check_mix({.cutmix = 1e-310}),
                       "mix: expected cutmix to be 0 or between 1e-06 and 1000, got 1e-310",
                       ValueError);
  CHECK_THROWS_WITH_AS(draw_mix({}, 8, 8, RandomKey{1}), "mix: expected mixup or cutmix above 0",
                       ValueError);
  CHECK_THROWS_AS(check_mix({.cutmix = std::nan("")}), ValueError);
  SmallNet model;
  optim::Sgd sgd(model.named_parameters());
  SyntheticSource source({.count = 4, .size = 8, .classes = 4}, 1);
  CHECK_THROWS_AS(Trainer(model, sgd, {source}, {.steps = 1, .mix = {.mixup = 1e9}}), ValueError);
}

namespace {

/// Losses of three steps on one batch, and the parameters after them.
std::vector<float> trained(const MixOptions& mix, uint64_t seed = 1) {
  SmallNet model(0);
  optim::Sgd sgd(model.named_parameters());
  SyntheticSource source({.count = 6, .size = 8, .classes = 4}, 3);
  Trainer trainer(
      model, sgd, {source},
      {.steps = 3, .seed = seed, .schedule = optim::ConstantSchedule{.rate = 0.1}, .mix = mix});
  std::vector<float> losses;
  trainer.on_step = [&](const StepReport& report) {
    losses.push_back(static_cast<float>(report.loss));
  };
  trainer.run();
  auto parameters = values_of(model.named_parameters());
  losses.insert(losses.end(), parameters.begin(), parameters.end());
  return losses;
}

}  // namespace

TEST_CASE("what a training mixes follows from its seed") {
  const auto plain = trained({});
  for (MixOptions mix : {MixOptions{.mixup = 1}, {.cutmix = 1}, {.mixup = 0.2, .cutmix = 1}}) {
    const auto expected = trained(mix);
    CHECK(trained(mix) == expected);
    CHECK(expected != plain);
    CHECK(trained(mix, 2) != expected);
  }
}

TEST_CASE("the mixed loss is that of the mixed batch: its gradient is of both labels") {
  // One step by hand: the same draw, the same bytes, cross entropy of each label with its share.
  const data::SyntheticBatch host = data::make_synthetic({.count = 5, .size = 8, .classes = 4});
  auto upload = [&] { return data::to_device(host.pixels, host.labels, host.size); };
  SmallNet model(0);
  TrainerOptions options{.mix = {.mixup = 1}};
  double mixed = 0, expected = 0;
  {
    autograd::RandomScope random(7, 3);
    mixed = training_loss(model, upload(), options).item<double>();
  }
  autograd::RandomScope random(7, 3);
  const Mix mix = draw_mix(options.mix, 8, 8, autograd::next_random_address("mix").key);
  REQUIRE(mix.share > 0.01);
  REQUIRE(mix.share < 0.99);
  data::DeviceBatch batch = upload();
  mix_images(batch.images, mix);
  Tensor logits = model(prepare_input(batch.images, options.input));
  std::vector<int64_t> partners(host.labels.rbegin(), host.labels.rend());
  expected = mix.share * cross_entropy(logits, batch.labels).item<double>() +
             (1 - mix.share) * cross_entropy(logits, from_vector(partners, {5})).item<double>();
  // Three means of 5 in float32, each of numbers below 8.
  CHECK(std::abs(mixed - expected) < 3 * 5 * 8 * 0x1p-23);
}

TEST_CASE("with smoothing too, images of ignored labels train nothing") {
  data::SyntheticBatch host = data::make_synthetic({.count = 2, .size = 8, .classes = 4});
  host.labels.assign(2, data::kIgnoredLabel);
  SmallNet model(0);
  for (MixOptions mix : {MixOptions{.mixup = 1}, {.cutmix = 1}}) {
    autograd::RandomScope random(7, 3);
    Tensor loss = training_loss(model, data::to_device(host.pixels, host.labels, host.size),
                                {.label_smoothing = 0.1, .mix = mix});
    CHECK(loss.item<double>() == 0);
    backward(loss);
    for (const nn::NamedTensor& parameter : model.named_parameters()) {
      REQUIRE(parameter.tensor.grad().defined());
      for (float value : parameter.tensor.grad().to_vector<float>()) CHECK(value == 0);
      parameter.tensor.set_grad(Tensor());
    }
  }
}

TEST_CASE("smoothing of mixed labels is that of cross entropy") {
  const data::SyntheticBatch host = data::make_synthetic({.count = 5, .size = 8, .classes = 4});
  SmallNet model(0);
  TrainerOptions options{.label_smoothing = 0.1, .mix = {.mixup = 1}};
  auto upload = [&] { return data::to_device(host.pixels, host.labels, host.size); };
  autograd::RandomScope random(7, 3);
  const double mixed = training_loss(model, upload(), options).item<double>();
  autograd::RandomScope again(7, 3);
  data::DeviceBatch batch = upload();
  const Mix mix = draw_mix(options.mix, 8, 8, autograd::next_random_address("mix").key);
  mix_images(batch.images, mix);
  Tensor logits = model(prepare_input(batch.images, options.input));
  const double expected =
      cross_entropy(logits, mix_labels(batch.labels, 4, mix), {.label_smoothing = 0.1})
          .item<double>();
  // Two means of 5 in float32, each of numbers below 8, of targets that are rounded once more.
  CHECK(std::abs(mixed - expected) < 2 * 5 * 8 * 0x1p-23);
}

TEST_CASE("a mixed step holds what is predicted for it on the meta device") {
  for (std::string planner : {"direct", "caching"})
    for (MixOptions mix : {MixOptions{.mixup = 1}, {.cutmix = 1}}) {
      auto program = [&](Device device, const std::function<void()>& state_is_held) {
        nn::CreationScope creation({.device = device});
        SmallNet model(0);
        optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
        TrainStep step(model, sgd);
        state_is_held();
        TrainerOptions options{.mix = mix, .input = {.device = device}};
        const data::SyntheticBatch host =
            data::make_synthetic({.count = 6, .size = 8, .classes = 4});
        for (int i = 0; i < 3; ++i)
          step.run(0.1, [&] {
            return training_loss(
                model, data::to_device(host.pixels, host.labels, host.size, device), options);
          });
      };
      const StepMemory predicted = measure_on_meta(
          memory::planner_named(planner), [&](auto state) { program(Device::meta(), state); });
      auto account = memory::capped_host_account(planner);
      memory::AccountScope scope(account);
      program(Device::cpu(), [] {});
      CHECK(account->stats().peak_live == predicted.peak_live);
      CHECK(account->stats().peak_reserved == predicted.peak_reserved);
    }
}
