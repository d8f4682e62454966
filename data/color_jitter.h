// Random brightness, contrast, saturation and hue, in random order: torchvision's ColorJitter. For
// training on photographs whose light varies; not for evaluation, nor where the colour is the
// class. `prepare` (data/transforms.h) calls it when `Augment::color_jitter` asks for it. Works on
// bytes, each step rounded, on the CPU, for one image at a time.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "brim/base/random.h"

namespace brim::data {

/// How far each may go; 0 leaves it as it is. The factors of the first three are uniform in
/// [max(0, 1 - x), 1 + x], the turn of the hue in [-x, x] of a whole circle.
struct ColorJitter {
  float brightness = 0, contrast = 0, saturation = 0;
  float hue = 0;  ///< up to 0.5

  friend bool operator==(const ColorJitter&, const ColorJitter&) = default;
};

/// Throws `ValueError` naming the first value that is below 0, not finite, or a hue above 0.5.
void check_color_jitter(const ColorJitter& jitter);

/// What one image gets.
struct ColorJitterDraw {
  float brightness = 1, contrast = 1, saturation = 1;  ///< factors
  float turn = 0;                                      ///< of the hue
  /// Which of the four comes first, second, ...: they count from 0 in the order above.
  std::array<int, 4> order{0, 1, 2, 3};
};
ColorJitterDraw draw_color_jitter(const ColorJitter& jitter, RandomStream& random);

/// Changes RGB pixels in place, as drawn. Takes no random numbers where nothing is to change.
void color_jitter(std::span<uint8_t> rgb, const ColorJitter& jitter, RandomStream& random);

// The four steps. Each keeps a pixel where its factor is 1 (or its turn 0); results are rounded to
// the nearest byte and cut to 0..255. Grey is 0.299 R + 0.587 G + 0.114 B, rounded to a byte.

/// factor * pixel.
void adjust_brightness(std::span<uint8_t> rgb, float factor);
/// factor * pixel + (1 - factor) * the mean of the image's grey, rounded to a byte.
void adjust_contrast(std::span<uint8_t> rgb, float factor);
/// factor * pixel + (1 - factor) * the pixel's grey.
void adjust_saturation(std::span<uint8_t> rgb, float factor);
/// Adds `turn`, in [-1, 1] of a whole circle, to the hue of the pixel in HSV.
void adjust_hue(std::span<uint8_t> rgb, float turn);

}  // namespace brim::data
