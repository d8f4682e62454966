// Proves that drawn shapes follow from (seed, split, index), look alike but for their outline,
// and cannot be told apart by a linear model.
#include "brim/data/shapes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "brim/base/error.h"
#include "brim/data/outlines.h"

using namespace brim;
using namespace brim::data;

namespace {

using Split = ShapesOptions::Split;

constexpr size_t kPixels = 32 * 32 * 3, kClasses = 10;

/// Softmax regression on pixels in [-1, 1]: a weight for each (pixel, class), and biases.
class LinearModel {
 public:
  LinearModel() : weights_(kPixels) {}

  std::array<float, kClasses> scores(const Image& image) const {
    std::array<float, kClasses> sums = biases_;
    for (size_t i = 0; i < kPixels; ++i) {
      const float x = input(image, i);
      for (size_t k = 0; k < kClasses; ++k) sums[k] += weights_[i][k] * x;
    }
    return sums;
  }

  void learn(const Image& image, int64_t label, float rate) {
    std::array<float, kClasses> steps = scores(image);
    const float top = std::ranges::max(steps);
    float sum = 0;
    for (float& value : steps) sum += value = std::exp(value - top);
    for (float& value : steps) value *= -rate / sum;
    steps[static_cast<size_t>(label)] += rate;
    for (size_t i = 0; i < kPixels; ++i) {
      const float x = input(image, i);
      for (size_t k = 0; k < kClasses; ++k) weights_[i][k] += steps[k] * x;
    }
    for (size_t k = 0; k < kClasses; ++k) biases_[k] += steps[k];
  }

 private:
  static float input(const Image& image, size_t i) {
    return static_cast<float>(image.pixels[i]) / 127.5f - 1;
  }
  std::vector<std::array<float, kClasses>> weights_;
  std::array<float, kClasses> biases_{};
};

}  // namespace

TEST_CASE("an image follows from seed, split and index") {
  Shapes a, b, other_seed({.seed = 1}), val({.split = Split::val});
  for (int64_t i : {0, 17, 7999}) {
    CHECK(a.read(i, 0) == b.read(i, 0));
    CHECK(a.read(i, 0) == a.read(i, 8));
  }
  CHECK(a.read(5, 0) != other_seed.read(5, 0));
  CHECK(a.read(5, 0) != val.read(5, 0));
  CHECK(a.read(5, 0) != a.read(15, 0));
  // More images do not change the first ones.
  CHECK(Shapes({.count = 100}).read(5, 0) == a.read(5, 0));
}

TEST_CASE("sizes, counts and names") {
  Shapes train, val({.split = Split::val}), large({.count = 3, .size = 64});
  CHECK(train.size() == 8000);
  CHECK(val.size() == 2000);
  CHECK(train.classes() == kClasses);
  CHECK(std::ranges::is_sorted(train.class_names()));
  CHECK(std::set<std::string>(train.class_names().begin(), train.class_names().end()).size() == 10);
  CHECK(train.label(17) == 7);
  CHECK(train.describe(17) == "shapes/train/17 (square)");
  CHECK(val.describe(0) == "shapes/val/0 (arrow)");
  CHECK(train.read(0, 0).width == 32);
  CHECK(large.size() == 3);
  CHECK(large.read(2, 0).height == 64);
  CHECK_THROWS_AS(large.read(3, 0), ValueError);
  CHECK_THROWS_AS(large.label(-1), ValueError);
  CHECK_THROWS_AS(Shapes({.count = -1}), ValueError);
  CHECK_THROWS_AS(Shapes({.size = 8}), ValueError);
}

TEST_CASE("outlines keep within their reach and cover similar areas") {
  constexpr float kStep = 0.01f;
  for (int i = 0; i < kOutlines; ++i) {
    CAPTURE(std::string(outline(i).name));
    float area = 0, reach = 0;
    for (float y = -1.5f; y < 1.5f; y += kStep)
      for (float x = -1.5f; x < 1.5f; x += kStep) {
        if (outline(i).outline({x, y}) >= 0) continue;
        area += kStep * kStep;
        reach = std::max(reach, std::hypot(x, y));
      }
    CHECK(reach > 0.75f);
    CHECK(reach <= kOutlineReach);
    // Area alone tells little: they are within a factor of three, and so are the squared radii.
    CHECK(area > 0.8f);
    CHECK(area < 2.4f);
  }
}

TEST_CASE("colours tell nothing: each class has all of them") {
  Shapes shapes;
  constexpr int kEach = 200;
  for (int64_t label = 0; label < int64_t{kClasses}; ++label) {
    std::array<double, 3> sum{};
    for (int64_t i = 0; i < kEach; ++i) {
      Image image = shapes.read(i * kClasses + label, 0);
      for (size_t at = 0; at < image.pixels.size(); ++at) sum[at % 3] += image.pixels[at];
    }
    // A background has a mean of 127.5 and a standard deviation of 74: 5.2 for 200 of them.
    for (double channel : sum) CHECK(std::abs(channel / (kEach * 32 * 32) - 127.5) < 5 * 5.2);
  }
}

TEST_CASE("a linear model fails") {
  Shapes train({.count = 4000}), val({.split = Split::val, .count = 1000});
  std::vector<Image> images;
  for (int64_t i = 0; i < train.size(); ++i) images.push_back(train.read(i, 0));
  LinearModel model;
  for (int epoch = 0; epoch < 5; ++epoch)
    for (int64_t i = 0; i < train.size(); ++i)
      model.learn(images[static_cast<size_t>(i)], train.label(i), 2e-4f);
  int right = 0;
  for (int64_t i = 0; i < val.size(); ++i) {
    auto scores = model.scores(val.read(i, 0));
    right += std::ranges::max_element(scores) - scores.begin() == val.label(i);
  }
  MESSAGE("linear model: ", right, " of 1000 right");
  CHECK(right < 400);
}
