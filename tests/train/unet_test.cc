// A class for every pixel: U-Net learns to find what is drawn, with the loss of classifiers on
// labels [N,H,W], in a `TrainStep`.
#include "brim/nn/models/unet.h"

#include <doctest/doctest.h>

#include "brim/autograd/op.h"
#include "brim/ops/cross_entropy.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/formula_numbers.h"
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

}  // namespace

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
