#include "brim/data/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "brim/base/error.h"
#include "brim/data/outlines.h"

namespace brim::data {
namespace {

constexpr const char* kTag = "shapes";
constexpr float kTwoPi = 6.2831853f;

using Color = std::array<float, 3>;

// How hard the pictures are. Lengths are in pixels of a 32 x 32 picture, colors in 0..255.
constexpr float kLeastRadius = 9.5f, kMostRadius = 13;
constexpr float kMostTurn = kTwoPi / 24;
constexpr float kLeastContrast = 160;
constexpr float kMostSlope = 40;
constexpr float kNoise = 6;  // standard deviation
constexpr uint64_t kMostLinesBelow = 1, kMostLinesAbove = 1, kMostBlobs = 2;

/// A picture in float, on which things are drawn over one another. Lengths are in pixels.
struct Canvas {
  int size;
  std::vector<Color> pixels;
  /// Pixels per 1/32 of the side: everything is stated for pictures of 32 x 32.
  float unit() const { return static_cast<float>(size) / 32; }
};

Color random_color(RandomStream& random) {
  return {random.uniform(0, 255), random.uniform(0, 255), random.uniform(0, 255)};
}

float contrast(const Color& a, const Color& b) {
  float sum = 0;
  for (int i = 0; i < 3; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// A color that can be told from `other`. Half of the range away in every channel always can.
Color contrasting_color(const Color& other, RandomStream& random) {
  for (int attempt = 0; attempt < 16; ++attempt)
    if (Color color = random_color(random); contrast(color, other) >= kLeastContrast) return color;
  Color color = other;
  for (float& channel : color) channel += channel < 128 ? 128 : -128;
  return color;
}

/// Covers what lies within `distance(point)` < 0 of the square of half-side `reach` around
/// `center`, with an edge one pixel soft.
template <class Distance>
void paint(Canvas& canvas, Point center, float reach, const Color& color,
           const Distance& distance) {
  auto clip = [&](float v) { return std::clamp(static_cast<int>(v), 0, canvas.size); };
  const int left = clip(center.x - reach - 1), right = clip(center.x + reach + 2);
  const int top = clip(center.y - reach - 1), bottom = clip(center.y + reach + 2);
  for (int y = top; y < bottom; ++y)
    for (int x = left; x < right; ++x) {
      Point offset{static_cast<float>(x) + 0.5f - center.x,
                   static_cast<float>(y) + 0.5f - center.y};
      float cover = std::clamp(0.5f - distance(offset), 0.0f, 1.0f);
      if (cover == 0) continue;
      Color& pixel = canvas.pixels[static_cast<size_t>(y) * canvas.size + x];
      for (int i = 0; i < 3; ++i) pixel[i] += cover * (color[i] - pixel[i]);
    }
}

/// A smooth change of color across the picture. Returns the color in its middle.
Color paint_background(Canvas& canvas, RandomStream& random) {
  const Color middle = random_color(random);
  const float angle = random.uniform(0, kTwoPi);
  const float along_x = std::cos(angle) / canvas.size, along_y = std::sin(angle) / canvas.size;
  Color slope;
  for (float& channel : slope) channel = random.uniform(-kMostSlope, kMostSlope);
  const float half = static_cast<float>(canvas.size) / 2;
  for (int y = 0; y < canvas.size; ++y)
    for (int x = 0; x < canvas.size; ++x) {
      float t = (x - half) * along_x + (y - half) * along_y;
      Color& pixel = canvas.pixels[static_cast<size_t>(y) * canvas.size + x];
      for (int i = 0; i < 3; ++i) pixel[i] = middle[i] + t * slope[i];
    }
  return middle;
}

Point random_point(const Canvas& canvas, RandomStream& random) {
  const float side = static_cast<float>(canvas.size);
  float x = random.uniform(0, side);
  return {x, random.uniform(0, side)};
}

void paint_line(Canvas& canvas, RandomStream& random) {
  const float unit = canvas.unit(), angle = random.uniform(0, kTwoPi);
  const float half_length = random.uniform(4, 12) * unit, half_width = 0.5f * unit;
  const float cosine = std::cos(angle), sine = std::sin(angle);
  const Point center = random_point(canvas, random);
  paint(canvas, center, half_length, random_color(random), [=](Point p) {
    float along = p.x * cosine + p.y * sine, across = p.y * cosine - p.x * sine;
    return std::max(std::abs(along) - half_length, std::abs(across) - half_width);
  });
}

void paint_blob(Canvas& canvas, RandomStream& random) {
  const float radius = random.uniform(1, 2.5f) * canvas.unit();
  const Point center = random_point(canvas, random);
  paint(canvas, center, radius, random_color(random),
        [=](Point p) { return std::sqrt(p.x * p.x + p.y * p.y) - radius; });
}

/// The shape itself, wholly inside the picture.
void paint_shape(Canvas& canvas, Outline outline, const Color& background, RandomStream& random) {
  const float side = static_cast<float>(canvas.size), unit = canvas.unit();
  const float radius = random.uniform(kLeastRadius, kMostRadius) * unit;
  const Color color = contrasting_color(background, random);
  const float reach = radius * kOutlineReach, margin = reach + 0.5f * unit;
  const float x = random.uniform(margin, side - margin), y = random.uniform(margin, side - margin);
  const float angle = random.uniform(-kMostTurn, kMostTurn), stretch = random.uniform(0.9f, 1.0f);
  const float cosine = std::cos(angle) / radius, sine = std::sin(angle) / radius;
  paint(canvas, {x, y}, reach, color, [=](Point p) {
    Point turned{p.x * cosine + p.y * sine, (p.y * cosine - p.x * sine) / stretch};
    return outline(turned) * radius * stretch;
  });
}

/// Rounds to bytes, with noise of a triangular distribution: the sum of two random bytes.
Image finish(const Canvas& canvas, RandomKey key, uint64_t index) {
  constexpr float kSumSigma = 104.5f;
  Image image(canvas.size, canvas.size);
  for (size_t i = 0; i < canvas.pixels.size(); ++i) {
    auto words = philox(key, index, i);
    for (size_t channel = 0; channel < 3; ++channel) {
      int sum = static_cast<int>(words[channel] & 255) + static_cast<int>(words[channel] >> 24);
      float value =
          canvas.pixels[i][channel] + static_cast<float>(sum - 255) * (kNoise / kSumSigma);
      image.pixels[i * 3 + channel] = static_cast<uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
    }
  }
  return image;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kOutlines; ++i) names.emplace_back(outline(i).name);
  return names;
}

const char* split_name(ShapesOptions::Split split) {
  return split == ShapesOptions::Split::train ? "train" : "val";
}

}  // namespace

Shapes::Shapes(ShapesOptions options)
    : options_(options),
      key_(derive(derive(RandomKey{options.seed}, "shapes"), split_name(options.split))) {
  expect<ValueError>(options_.count >= 0, kTag, "expected a count of at least 0, got {}",
                     options_.count);
  expect<ValueError>(options_.size >= 16 && options_.size <= 1024, kTag,
                     "expected a size between 16 and 1024 pixels, got {}", options_.size);
  if (options_.count == 0)
    options_.count = options_.split == ShapesOptions::Split::train ? 8000 : 2000;
}

const std::vector<std::string>& Shapes::class_names() const {
  static const std::vector<std::string> names = all_names();
  return names;
}

int64_t Shapes::label(int64_t index) const {
  expect<ValueError>(index >= 0 && index < size(), kTag, "expected an index below {}, got {}",
                     size(), index);
  return index % kOutlines;
}

Image Shapes::read(int64_t index, int /*target*/) const {
  const int shape = static_cast<int>(label(index));
  RandomStream random(derive(key_, "draw"), static_cast<uint64_t>(index));
  Canvas canvas{options_.size,
                std::vector<Color>(static_cast<size_t>(options_.size) * options_.size)};
  const Color background = paint_background(canvas, random);
  for (uint64_t lines = random.below(kMostLinesBelow + 1); lines > 0; --lines)
    paint_line(canvas, random);
  paint_shape(canvas, outline(shape).outline, background, random);
  // On top of the shape too, so that a few clean pixels never suffice.
  for (uint64_t lines = random.below(kMostLinesAbove + 1); lines > 0; --lines)
    paint_line(canvas, random);
  for (uint64_t blobs = random.below(kMostBlobs + 1); blobs > 0; --blobs)
    paint_blob(canvas, random);
  return finish(canvas, derive(key_, "noise"), static_cast<uint64_t>(index));
}

std::string Shapes::describe(int64_t index) const {
  const std::string& name = class_names()[static_cast<size_t>(label(index))];
  return fmt::format("shapes/{}/{} ({})", split_name(options_.split), index, name);
}

}  // namespace brim::data
