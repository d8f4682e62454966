// Proves that each transform takes the part of the image that it says, with torchvision's
// distributions, and that its result follows from (image, options, stream) alone.
#include "brim/data/transforms.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "brim/base/error.h"
#include "brim/data/resize.h"

using namespace brim;
using namespace brim::data;

namespace {

/// Each pixel tells its own place: (x, y, 1).
Image places(int width, int height) {
  Image image(width, height);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      uint8_t* pixel = image.row(y) + x * 3;
      pixel[0] = static_cast<uint8_t>(x);
      pixel[1] = static_cast<uint8_t>(y);
      pixel[2] = 1;
    }
  return image;
}

RandomStream stream(uint64_t sample) { return RandomStream(RandomKey{9}, sample); }

std::vector<uint8_t> prepared(const ImageView& image, int size, const Augment& augment,
                              uint64_t sample) {
  std::vector<uint8_t> out(static_cast<size_t>(size) * size * 3);
  prepare(image, size, augment, stream(sample), out.data());
  return out;
}

/// The means of area and log(ratio), uniform over what fits in width x height, on a fine grid.
std::pair<double, double> expected_means(double width, double height) {
  constexpr int kGrid = 500;
  const double low = std::log(0.75), high = std::log(4.0 / 3);
  double count = 0, area_sum = 0, log_ratio_sum = 0;
  for (int i = 0; i < kGrid; ++i)
    for (int j = 0; j < kGrid; ++j) {
      double area = 0.08 + 0.92 * (i + 0.5) / kGrid;
      double log_ratio = low + (high - low) * (j + 0.5) / kGrid, ratio = std::exp(log_ratio);
      double pixels = area * width * height;
      if (std::sqrt(pixels * ratio) > width || std::sqrt(pixels / ratio) > height) continue;
      ++count;
      area_sum += area;
      log_ratio_sum += log_ratio;
    }
  return {area_sum / count, log_ratio_sum / count};
}

}  // namespace

TEST_CASE("every transform has all it needs in the part that it says") {
  const Image image = places(90, 61);
  const std::vector<Augment> augments{{.kind = Augment::Kind::random_resized_crop, .flip = true},
                                      {.kind = Augment::Kind::padded_crop, .flip = true},
                                      {.kind = Augment::Kind::none},
                                      {.kind = Augment::Kind::none, .resize = 24}};
  for (const Augment& augment : augments)
    for (uint64_t sample = 0; sample < 20; ++sample) {
      CAPTURE(sample);
      const Box box = prepare_source(90, 61, 20, augment, stream(sample));
      ImagePart part{Image(box.width, box.height), box, 90, 61};
      for (int y = 0; y < box.height; ++y)
        std::copy_n(image.row(box.y + y) + box.x * 3, box.width * 3, part.pixels.row(y));
      CHECK(prepared(part, 20, augment, sample) == prepared(image, 20, augment, sample));
    }
}

TEST_CASE("random resized crops lie inside and have the stated area and ratio") {
  Image image(500, 375);
  Augment augment{.kind = Augment::Kind::random_resized_crop};
  double area_sum = 0, log_ratio_sum = 0;
  int left = 0;
  constexpr int kDraws = 4000;
  for (uint64_t sample = 0; sample < kDraws; ++sample) {
    RandomStream random = stream(sample);
    Box box = random_resized_box(500, 375, augment, random);
    REQUIRE(box.x >= 0);
    REQUIRE(box.y >= 0);
    REQUIRE(box.x + box.width <= 500);
    REQUIRE(box.y + box.height <= 375);
    double area = box.width * box.height / (500.0 * 375), ratio = double(box.width) / box.height;
    // Sides are rounded to whole pixels: the shorter one has at least 106.
    REQUIRE(area > 0.08 * 0.99);
    REQUIRE(ratio > 0.75 * 0.99);
    REQUIRE(ratio < 4.0 / 3 * 1.01);
    area_sum += area;
    log_ratio_sum += std::log(ratio);
    left += box.x < (500 - box.width) / 2.0;
  }
  auto [mean_area, mean_log_ratio] = expected_means(500, 375);
  // Five standard deviations of a mean of 4,000: 0.25 / 63 and 0.17 / 63.
  CHECK(std::abs(area_sum / kDraws - mean_area) < 0.02);
  CHECK(std::abs(log_ratio_sum / kDraws - mean_log_ratio) < 0.014);
  // The standard deviation of this count is 32.
  CHECK(std::abs(left - kDraws / 2) < 160);
}

TEST_CASE("where no crop fits, the centre is taken") {
  Augment augment{.kind = Augment::Kind::random_resized_crop, .min_area = 1, .max_area = 1};
  RandomStream random = stream(0);
  CHECK(random_resized_box(1000, 10, augment, random) == Box{493, 0, 13, 10});
  CHECK(random_resized_box(9, 900, augment, random) == Box{0, 444, 9, 12});
  CHECK(random_resized_box(1, 1, augment, random) == Box{0, 0, 1, 1});
}

TEST_CASE("a padded crop is the image moved by up to the padding, beside it black or its mirror") {
  constexpr int kSize = 12, kPadding = 4;
  Image image = places(kSize, kSize);
  Augment augment{.padding = kPadding};
  bool reflect = false;
  SUBCASE("black") {}
  SUBCASE("mirror") {
    augment.padding_mode = Augment::PaddingMode::reflect;
    reflect = true;
  }
  // As numpy.pad's "reflect": 2 1 0 1 2 ... 11 10 9.
  auto mirrored = [](int i) { return i < 0 ? -i : i > kSize - 1 ? 2 * (kSize - 1) - i : i; };
  std::set<std::pair<int, int>> moves;
  for (uint64_t sample = 0; sample < 1000; ++sample) {
    std::vector<uint8_t> out(kSize * kSize * 3);
    RandomStream random = stream(sample);
    padded_crop(image, kSize, augment, random, out.data());
    // The middle is never black: from it, how far the image moved.
    const uint8_t* middle = &out[(6 * kSize + 6) * 3];
    REQUIRE(middle[2] == 1);
    const int dx = middle[0] - 6, dy = middle[1] - 6;
    REQUIRE(std::max(std::abs(dx), std::abs(dy)) <= kPadding);
    moves.insert({dx, dy});
    for (int y = 0; y < kSize; ++y)
      for (int x = 0; x < kSize; ++x) {
        const uint8_t* pixel = &out[static_cast<size_t>(y * kSize + x) * 3];
        bool inside = x + dx >= 0 && x + dx < kSize && y + dy >= 0 && y + dy < kSize;
        REQUIRE(pixel[2] == (inside || reflect ? 1 : 0));
        REQUIRE(pixel[0] == (inside || reflect ? mirrored(x + dx) : 0));
        REQUIRE(pixel[1] == (inside || reflect ? mirrored(y + dy) : 0));
      }
  }
  CHECK(moves.size() == 81);
}

TEST_CASE("padding beyond the size can leave nothing but black") {
  Image image = places(2, 2);
  for (uint64_t sample = 0; sample < 50; ++sample) {
    std::vector<uint8_t> out(2 * 2 * 3, 99);
    RandomStream random = stream(sample);
    padded_crop(image, 2, {.padding = 50}, random, out.data());
    CHECK(std::ranges::max(out) <= 1);
  }
}

TEST_CASE("the centre crop takes the middle of the resized image") {
  std::vector<uint8_t> out(8 * 8 * 3);
  center_crop(places(20, 8), 8, 8, out.data());
  CHECK(out[0] == 6);  // (20 - 8) / 2
  CHECK(out[7 * 3] == 13);
  // Larger first: the same as resizing all of it and cutting.
  Image image = places(33, 21), whole = resize(image, 12 * 33 / 21, 12);
  center_crop(image, 8, 12, out.data());
  for (int y = 0; y < 8; ++y)
    CHECK(std::equal(&out[static_cast<size_t>(y) * 24], &out[static_cast<size_t>(y) * 24] + 24,
                     whole.row(y + 2) + (whole.width - 8) / 2 * 3));
}

TEST_CASE("an image thinner than 1024 to 1 is cut before it is resized") {
  std::vector<uint8_t> out(4 * 4 * 3);
  center_crop(Image(1, 3'000'000), 4, 4, out.data());
  center_crop(Image(3'000'000, 1), 4, 4, out.data());
  CHECK(std::ranges::max(out) == 0);
}

TEST_CASE("flipping mirrors left and right, twice is nothing") {
  for (int size : {1, 2, 7}) {
    Image image = places(size, size), flipped = image;
    flip_horizontal(size, flipped.pixels.data());
    for (int y = 0; y < size; ++y)
      for (int x = 0; x < size; ++x) {
        CHECK(flipped.row(y)[x * 3] == size - 1 - x);
        CHECK(flipped.row(y)[x * 3 + 1] == y);
      }
    flip_horizontal(size, flipped.pixels.data());
    CHECK(flipped == image);
  }
}

TEST_CASE("half of the images are flipped") {
  Image image = places(4, 4);
  int flips = 0;
  for (uint64_t sample = 0; sample < 2000; ++sample)
    flips += prepared(image, 4, {.flip = true}, sample)[0] == 3;
  CHECK(std::abs(flips - 1000) < 110);  // five standard deviations
}

TEST_CASE("what is prepared follows from image, options and stream") {
  Image image = places(40, 30);
  for (auto kind :
       {Augment::Kind::none, Augment::Kind::padded_crop, Augment::Kind::random_resized_crop}) {
    Augment augment{.kind = kind, .flip = true};
    CHECK(prepared(image, 16, augment, 5) == prepared(image, 16, augment, 5));
    if (kind != Augment::Kind::none)
      CHECK(prepared(image, 16, augment, 5) != prepared(image, 16, augment, 6));
  }
  // Without an augmentation the stream does not matter.
  CHECK(prepared(image, 16, {}, 5) == prepared(image, 16, {}, 6));
}

TEST_CASE("colours are jittered after the crop and the flip, and erasing comes last") {
  const Image image = places(40, 30);
  Augment augment{.kind = Augment::Kind::padded_crop, .flip = true};
  const Augment plain = augment;
  augment.color_jitter = {.brightness = 0.5f, .contrast = 0.5f, .saturation = 0.5f, .hue = 0.2f};
  augment.random_erasing = {.probability = 0.5f, .fill = RandomErasing::Fill::noise};
  int erased = 0;
  for (uint64_t sample = 0; sample < 20; ++sample) {
    // The crop takes four random numbers and the flip one: the stream goes on from there.
    RandomStream random = stream(sample);
    for (int i = 0; i < 5; ++i) random.bits();
    std::vector<uint8_t> expected = prepared(image, 16, plain, sample);
    color_jitter(expected, augment.color_jitter, random);
    const std::vector<uint8_t> jittered = expected;
    random_erasing(16, expected.data(), augment.random_erasing, random);
    erased += expected != jittered;
    CHECK(prepared(image, 16, augment, sample) == expected);
  }
  CHECK(erased > 0);
  CHECK(erased < 20);
}

TEST_CASE("decoders are asked for enough pixels") {
  CHECK(decode_target(224, {}) == 224);
  CHECK(decode_target(224, {.resize = 256}) == 256);
  CHECK(decode_target(32, {.kind = Augment::Kind::padded_crop}) == 32);
  // A part of 0.08 of the area has 0.283 of the side.
  CHECK(decode_target(224, {.kind = Augment::Kind::random_resized_crop}) == 792);
}

TEST_CASE("options that make no sense are named") {
  auto error_of = [](const Augment& augment, int size) -> std::string {
    try {
      check_augment(augment, size);
      return "";
    } catch (const ValueError& error) {
      return error.what();
    }
  };
  CHECK(error_of({}, 32) == "");
  CHECK(error_of({}, 0) == "augment: expected a size between 1 and 65535 pixels, got 0");
  CHECK(error_of({.resize = 31}, 32) ==
        "augment: expected resize to be 0 or from the size 32 to 65535, got 31");
  CHECK(error_of({.padding = -1}, 32) == "augment: expected padding between 0 and 65535, got -1");
  CHECK(error_of({.padding = 32}, 32) == "");
  using Mode = Augment::PaddingMode;
  Augment reflected{.kind = Augment::Kind::padded_crop, .padding_mode = Mode::reflect};
  reflected.padding = 31;
  CHECK(error_of(reflected, 32) == "");
  reflected.padding = 32;
  CHECK(error_of(reflected, 32) == "augment: expected reflected padding below the size 32, got 32");
  std::vector<uint8_t> out(2 * 2 * 3);
  RandomStream random = stream(0);
  CHECK_THROWS_AS(padded_crop(places(2, 2), 2, reflected, random, out.data()), ValueError);
  CHECK(error_of({.color_jitter = {.hue = 1}}, 32) ==
        "color_jitter: expected hue between 0 and 0.5, got 1");
  CHECK(error_of({.random_erasing = {.probability = 2}}, 32) ==
        "random_erasing: expected a probability between 0 and 1, got 2");
  CHECK(error_of({.min_area = 0}, 32) != "");
  CHECK(error_of({.min_area = NAN}, 32) != "");
  CHECK(error_of({.max_area = 1.5f}, 32) != "");
  CHECK(error_of({.min_ratio = 2, .max_ratio = 1}, 32) != "");
}
