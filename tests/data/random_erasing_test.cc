// Proves that erased rectangles lie inside, have torchvision's distributions of area, ratio and
// place, and that nothing outside of them changes.
#include "brim/data/random_erasing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "brim/base/error.h"

using namespace brim;
using namespace brim::data;

namespace {

RandomStream stream(uint64_t sample) { return RandomStream(RandomKey{6}, sample); }

}  // namespace

TEST_CASE("as many images lose a rectangle as the probability says") {
  constexpr int kDraws = 4000;
  int erased = 0;
  for (uint64_t sample = 0; sample < kDraws; ++sample) {
    RandomStream random = stream(sample);
    erased += random_erasing_box(64, {.probability = 0.3f}, random).has_value();
  }
  CHECK(std::abs(erased - 0.3 * kDraws) < 5 * std::sqrt(0.3 * 0.7 * kDraws));
  for (uint64_t sample = 0; sample < 100; ++sample) {
    RandomStream random = stream(sample);
    CHECK_FALSE(random_erasing_box(64, {.probability = 0}, random));
    CHECK(random_erasing_box(64, {.probability = 1}, random));
  }
}

TEST_CASE("area is uniform, ratio log-uniform, and every place as likely") {
  constexpr int kDraws = 4000, kSize = 400;
  // No draw is rejected: 0.1 of the area at a ratio of 2 is 179 pixels high.
  const RandomErasing erasing{
      .probability = 1, .min_area = 0.02f, .max_area = 0.1f, .min_ratio = 0.5f, .max_ratio = 2};
  double area = 0, log_ratio = 0, log_ratio_squares = 0, x = 0, y = 0;
  for (uint64_t sample = 0; sample < kDraws; ++sample) {
    RandomStream random = stream(sample);
    const Box box = random_erasing_box(kSize, erasing, random).value();
    REQUIRE(box.x >= 0);
    REQUIRE(box.y >= 0);
    REQUIRE(box.x + box.width <= kSize);
    REQUIRE(box.y + box.height <= kSize);
    area += static_cast<double>(box.width) * box.height / (kSize * kSize);
    const double ratio = std::log(static_cast<double>(box.height) / box.width) / std::log(2.0);
    log_ratio += ratio;
    log_ratio_squares += ratio * ratio;
    x += static_cast<double>(box.x) / (kSize - box.width);
    y += static_cast<double>(box.y) / (kSize - box.height);
  }
  // Five standard deviations of each mean. Sides are rounded, to at most 1 part in 80.
  CHECK(std::abs(area / kDraws - 0.06) < 5 * 0.08 * std::sqrt(1.0 / 12 / kDraws));
  CHECK(std::abs(log_ratio / kDraws) < 5 * std::sqrt(1.0 / 3 / kDraws));
  CHECK(std::abs(log_ratio_squares / kDraws - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / kDraws));
  CHECK(std::abs(x / kDraws - 0.5) < 5 * std::sqrt(1.0 / 12 / kDraws));
  CHECK(std::abs(y / kDraws - 0.5) < 5 * std::sqrt(1.0 / 12 / kDraws));
}

TEST_CASE("rectangles that do not fit are drawn again, and in the end none is erased") {
  RandomErasing erasing{.probability = 1, .min_area = 1, .max_area = 1};
  for (uint64_t sample = 0; sample < 50; ++sample) {
    RandomStream random = stream(sample);
    CHECK_FALSE(random_erasing_box(32, erasing, random));
  }
  // Half of the area at a ratio of 3 is 39 of 32 pixels high; at a ratio of 1, 23.
  erasing = {.probability = 1, .min_area = 0.5f, .max_area = 0.5f};
  for (uint64_t sample = 0; sample < 200; ++sample) {
    RandomStream random = stream(sample);
    const Box box = random_erasing_box(32, erasing, random).value_or(Box{0, 0, 23, 23});
    CHECK(std::max(box.width, box.height) < 32);
    CHECK(std::abs(box.width * box.height - 512) <= 16 + 16);  // each side is rounded by up to 1/2
  }
}

TEST_CASE("the rectangle is black or noise, the rest is as it was") {
  constexpr int kSize = 24;
  const std::vector<uint8_t> image(kSize * kSize * 3, 77);
  std::array<int, 256> histogram{};
  int64_t filled = 0;
  for (auto fill : {RandomErasing::Fill::black, RandomErasing::Fill::noise})
    for (uint64_t sample = 0; sample < 60; ++sample) {
      const RandomErasing erasing{.probability = 1, .fill = fill};
      RandomStream random = stream(sample), again = stream(sample), third = stream(sample);
      const Box box = random_erasing_box(kSize, erasing, random).value();
      std::vector<uint8_t> out = image, twice = image;
      random_erasing(kSize, out.data(), erasing, again);
      random_erasing(kSize, twice.data(), erasing, third);
      CHECK(out == twice);
      for (int at = 0; at < kSize * kSize * 3; ++at) {
        const int x = at / 3 % kSize, y = at / 3 / kSize;
        const bool inside =
            x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height;
        const uint8_t value = out[static_cast<size_t>(at)];
        if (!inside) REQUIRE(value == 77);
        if (inside && fill == RandomErasing::Fill::black) REQUIRE(value == 0);
        if (!inside || fill == RandomErasing::Fill::black) continue;
        ++histogram[value];
        ++filled;
      }
    }
  // Chi squared of 255 degrees of freedom: five standard deviations above its mean.
  double chi = 0;
  for (int count : histogram) {
    const double expected = static_cast<double>(filled) / 256;
    chi += (count - expected) * (count - expected) / expected;
  }
  CHECK(chi < 255 + 5 * std::sqrt(2 * 255.0));
}

TEST_CASE("options that make no sense are named") {
  auto error_of = [](const RandomErasing& erasing) -> std::string {
    try {
      check_random_erasing(erasing);
      return "";
    } catch (const ValueError& error) {
      return error.what();
    }
  };
  CHECK(error_of({}) == "");
  CHECK(error_of({.probability = 1}) == "");
  CHECK(error_of({.probability = 1.5f}) ==
        "random_erasing: expected a probability between 0 and 1, got 1.5");
  CHECK(error_of({.min_area = 0}) ==
        "random_erasing: expected 0 < min_area <= max_area <= 1, got 0 and 0.33");
  CHECK(error_of({.min_ratio = 4}) ==
        "random_erasing: expected 0 < min_ratio <= max_ratio < 10000, got 4 and 3.3");
  CHECK(error_of({.probability = NAN}) != "");
}
