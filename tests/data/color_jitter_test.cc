// Proves each step of colour jitter against its formula in double precision, and that factors and
// orders have torchvision's distributions.
#include "brim/data/color_jitter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "brim/base/error.h"

using namespace brim;
using namespace brim::data;

namespace {

using Bytes = std::vector<uint8_t>;

// Every corner of the cube of colours, greys, and a spread of others.
Bytes many_colours() {
  Bytes rgb;
  for (int r : {0, 1, 60, 127, 128, 200, 254, 255})
    for (int g : {0, 2, 77, 128, 190, 255})
      for (int b : {0, 3, 90, 128, 211, 255})
        for (int value : {r, g, b}) rgb.push_back(static_cast<uint8_t>(value));
  return rgb;
}

double grey_of(const uint8_t* rgb) {
  // In thousandths, whose sum is exact.
  return std::floor((299.0 * rgb[0] + 587.0 * rgb[1] + 114.0 * rgb[2] + 500) / 1000);
}

/// Half a unit of rounding, and what floats of up to 255 * factor lose in a handful of operations.
constexpr double kRounding = 0.5 + 16 * 1024 * 0x1p-24;

void check_near(const Bytes& bytes, const std::vector<double>& exact) {
  REQUIRE(bytes.size() == exact.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    CAPTURE(i);
    CAPTURE(exact[i]);
    CHECK(std::abs(bytes[i] - std::clamp(exact[i], 0.0, 255.0)) <= kRounding);
  }
}

/// HSV's sectors, as textbooks have them.
void hue_turned(const uint8_t* rgb, double turn, double* out) {
  const double r = rgb[0], g = rgb[1], b = rgb[2];
  const double high = std::max({r, g, b}), low = std::min({r, g, b}), range = high - low;
  double hue = 0;
  if (range > 0) {
    if (high == r)
      hue = (g - b) / range;
    else if (high == g)
      hue = 2 + (b - r) / range;
    else
      hue = 4 + (r - g) / range;
  }
  hue += 6 * turn;
  hue -= 6 * std::floor(hue / 6);
  const int sector = static_cast<int>(hue) % 6;
  const double f = hue - std::floor(hue), falling = high - range * f, rising = low + range * f;
  const double table[6][3] = {{high, rising, low},  {falling, high, low}, {low, high, rising},
                              {low, falling, high}, {rising, low, high},  {high, low, falling}};
  std::copy_n(table[sector], 3, out);
}

RandomStream stream(uint64_t sample) { return RandomStream(RandomKey{4}, sample); }

}  // namespace

TEST_CASE("brightness scales, contrast blends with the mean grey, saturation with the pixel's") {
  const Bytes rgb = many_colours();
  double sum = 0;
  for (size_t i = 0; i < rgb.size(); i += 3) sum += grey_of(&rgb[i]);
  const double mean = std::floor(sum / (static_cast<double>(rgb.size()) / 3) + 0.5);
  for (float factor : {0.0f, 0.3f, 1.0f, 1.7f, 4.0f}) {
    CAPTURE(factor);
    std::vector<double> brightness, contrast, saturation;
    for (size_t i = 0; i < rgb.size(); ++i) {
      brightness.push_back(double{factor} * rgb[i]);
      contrast.push_back(double{factor} * rgb[i] + (1 - double{factor}) * mean);
      saturation.push_back(double{factor} * rgb[i] +
                           (1 - double{factor}) * grey_of(&rgb[i - i % 3]));
    }
    Bytes out = rgb;
    adjust_brightness(out, factor);
    check_near(out, brightness);
    out = rgb;
    adjust_contrast(out, factor);
    check_near(out, contrast);
    out = rgb;
    adjust_saturation(out, factor);
    check_near(out, saturation);
  }
}

TEST_CASE("hue turns round the circle of HSV") {
  const Bytes rgb = many_colours();
  for (float turn : {-0.5f, -0.21f, 0.0f, 0.1f, 1.0f / 3, 0.5f}) {
    CAPTURE(turn);
    std::vector<double> exact(rgb.size());
    for (size_t i = 0; i < rgb.size(); i += 3) hue_turned(&rgb[i], turn, &exact[i]);
    Bytes out = rgb;
    adjust_hue(out, turn);
    check_near(out, exact);
  }
  Bytes red{255, 0, 0};
  adjust_hue(red, 1.0f / 3);
  CHECK(red == Bytes{0, 255, 0});
}

TEST_CASE("a factor of 1 and a turn of 0 keep every byte") {
  const Bytes rgb = many_colours();
  Bytes out = rgb;
  adjust_brightness(out, 1);
  adjust_contrast(out, 1);
  adjust_saturation(out, 1);
  adjust_hue(out, 0);
  CHECK(out == rgb);
  RandomStream random = stream(0), untouched = stream(0);
  color_jitter(out, {}, random);
  CHECK(out == rgb);
  CHECK(random.bits() == untouched.bits());
}

TEST_CASE("factors and turns are uniform in their ranges") {
  constexpr int kDraws = 4000;
  const ColorJitter jitter{.brightness = 0.4f, .contrast = 1.5f, .saturation = 0.2f, .hue = 0.25f};
  struct Range {
    double low, high, sum = 0, squares = 0;
    void add(double value) {
      REQUIRE(value >= low - 1e-6);  // rounding of low + (high - low) * u
      REQUIRE(value <= high + 1e-6);
      const double u = (value - low) / (high - low);
      sum += u;
      squares += u * u;
    }
  };
  Range ranges[] = {{0.6, 1.4}, {0, 2.5}, {0.8, 1.2}, {-0.25, 0.25}};
  for (uint64_t sample = 0; sample < kDraws; ++sample) {
    RandomStream random = stream(sample);
    const ColorJitterDraw draw = draw_color_jitter(jitter, random);
    ranges[0].add(draw.brightness);
    ranges[1].add(draw.contrast);
    ranges[2].add(draw.saturation);
    ranges[3].add(draw.turn);
  }
  for (const Range& range : ranges) {
    // Five standard deviations of the means of u and of u squared.
    CHECK(std::abs(range.sum / kDraws - 1.0 / 2) < 5 * std::sqrt(1.0 / 12 / kDraws));
    CHECK(std::abs(range.squares / kDraws - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / kDraws));
  }
}

TEST_CASE("all orders are equally likely, and the order is kept to") {
  constexpr int kDraws = 24 * 200;
  std::map<std::array<int, 4>, int> counts;
  for (uint64_t sample = 0; sample < kDraws; ++sample) {
    RandomStream random = stream(sample);
    ++counts[draw_color_jitter({.brightness = 1}, random).order];
  }
  CHECK(counts.size() == 24);
  // Five standard deviations of a count of 200 expected.
  for (const auto& [order, count] : counts) CHECK(std::abs(count - 200) < 5 * std::sqrt(200.0));

  const ColorJitter all{.brightness = 0.5f, .contrast = 0.5f, .saturation = 0.5f, .hue = 0.3f};
  for (uint64_t sample = 0; sample < 30; ++sample) {
    RandomStream random = stream(sample), again = stream(sample);
    const ColorJitterDraw draw = draw_color_jitter(all, random);
    Bytes expected = many_colours(), out = expected;
    for (int step : draw.order) {
      if (step == 0) adjust_brightness(expected, draw.brightness);
      if (step == 1) adjust_contrast(expected, draw.contrast);
      if (step == 2) adjust_saturation(expected, draw.saturation);
      if (step == 3) adjust_hue(expected, draw.turn);
    }
    color_jitter(out, all, again);
    CHECK(out == expected);
  }
}

TEST_CASE("reaches out of range are named") {
  auto error_of = [](const ColorJitter& jitter) -> std::string {
    try {
      check_color_jitter(jitter);
      return "";
    } catch (const ValueError& error) {
      return error.what();
    }
  };
  CHECK(error_of({0.4f, 0.4f, 0.4f, 0.5f}) == "");
  CHECK(error_of({.brightness = -1}) ==
        "color_jitter: expected brightness between 0 and 1000, got -1");
  CHECK(error_of({.hue = 0.6f}) == "color_jitter: expected hue between 0 and 0.5, got 0.6");
  CHECK(error_of({.contrast = std::numeric_limits<float>::quiet_NaN()}) != "");
  CHECK(error_of({.saturation = std::numeric_limits<float>::infinity()}) != "");
}
