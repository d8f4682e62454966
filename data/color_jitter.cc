#include "brim/data/color_jitter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "brim/base/error.h"

namespace brim::data {
namespace {

uint8_t to_byte(float value) {
  return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f) + 0.5f);
}

/// ITU-R 601's grey, in whole numbers.
int grey(const uint8_t* rgb) { return (299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000; }

/// factor * rgb + (1 - factor) * other, in each of its three bytes.
void blend(uint8_t* rgb, float factor, float other) {
  for (int channel = 0; channel < 3; ++channel)
    rgb[channel] = to_byte(other + factor * (static_cast<float>(rgb[channel]) - other));
}

void check_range(const char* name, float value, float highest) {
  // Written so that a NaN fails.
  expect<ValueError>(value >= 0 && value <= highest, "color_jitter",
                     "expected {} between 0 and {}, got {}", name, highest, value);
}

float draw_factor(float reach, RandomStream& random) {
  return random.uniform(std::max(0.0f, 1 - reach), 1 + reach);
}

}  // namespace

void check_color_jitter(const ColorJitter& jitter) {
  constexpr float kHighest = 1000;  // far beyond use, far below what a float cannot hold
  check_range("brightness", jitter.brightness, kHighest);
  check_range("contrast", jitter.contrast, kHighest);
  check_range("saturation", jitter.saturation, kHighest);
  check_range("hue", jitter.hue, 0.5f);
}

ColorJitterDraw draw_color_jitter(const ColorJitter& jitter, RandomStream& random) {
  ColorJitterDraw draw;
  draw.brightness = draw_factor(jitter.brightness, random);
  draw.contrast = draw_factor(jitter.contrast, random);
  draw.saturation = draw_factor(jitter.saturation, random);
  draw.turn = random.uniform(-jitter.hue, jitter.hue);
  for (size_t i = 3; i > 0; --i) std::swap(draw.order[i], draw.order[random.below(i + 1)]);
  return draw;
}

void color_jitter(std::span<uint8_t> rgb, const ColorJitter& jitter, RandomStream& random) {
  if (jitter == ColorJitter{}) return;
  const ColorJitterDraw draw = draw_color_jitter(jitter, random);
  for (int step : draw.order) {
    if (step == 0) adjust_brightness(rgb, draw.brightness);
    if (step == 1) adjust_contrast(rgb, draw.contrast);
    if (step == 2) adjust_saturation(rgb, draw.saturation);
    if (step == 3) adjust_hue(rgb, draw.turn);
  }
}

void adjust_brightness(std::span<uint8_t> rgb, float factor) {
  if (factor == 1) return;
  for (uint8_t& value : rgb) value = to_byte(factor * static_cast<float>(value));
}

void adjust_contrast(std::span<uint8_t> rgb, float factor) {
  if (factor == 1 || rgb.empty()) return;
  const auto pixels = static_cast<int64_t>(rgb.size() / 3);
  int64_t sum = 0;
  for (size_t i = 0; i + 3 <= rgb.size(); i += 3) sum += grey(&rgb[i]);
  const auto mean = static_cast<float>((2 * sum + pixels) / (2 * pixels));  // rounded
  for (size_t i = 0; i + 3 <= rgb.size(); i += 3) blend(&rgb[i], factor, mean);
}

void adjust_saturation(std::span<uint8_t> rgb, float factor) {
  if (factor == 1) return;
  for (size_t i = 0; i + 3 <= rgb.size(); i += 3)
    blend(&rgb[i], factor, static_cast<float>(grey(&rgb[i])));
}

// The hue h in [0, 6) and the pixel's smallest and largest values m and M give each channel as
// M - (M - m) * clamp(min(k, 4 - k), 0, 1), k = (n + h) mod 6 with n = 5, 3, 1 for red, green and
// blue (A. R. Smith, "Color Gamut Transform Pairs", SIGGRAPH 1978, in one formula).
void adjust_hue(std::span<uint8_t> rgb, float turn) {
  if (turn == 0) return;
  for (size_t i = 0; i + 3 <= rgb.size(); i += 3) {
    const float r = rgb[i], g = rgb[i + 1], b = rgb[i + 2];
    const float largest = std::max({r, g, b}), range = largest - std::min({r, g, b});
    if (range == 0) continue;
    float hue = 0;
    if (largest == r)
      hue = (g - b) / range;
    else if (largest == g)
      hue = 2 + (b - r) / range;
    else
      hue = 4 + (r - g) / range;
    hue += 6 * turn + 12;  // above 0
    for (int channel = 0; channel < 3; ++channel) {
      const float k = std::fmod(hue + static_cast<float>(5 - 2 * channel), 6.0f);
      rgb[i + static_cast<size_t>(channel)] =
          to_byte(largest - range * std::clamp(std::min(k, 4 - k), 0.0f, 1.0f));
    }
  }
}

}  // namespace brim::data
