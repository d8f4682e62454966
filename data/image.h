// An image in host memory: 8-bit RGB, one byte a channel, rows from the top without padding.
//
// What decoders give and transforms take. Not a tensor: it has no dtype, device or gradient. A
// batch of prepared images reaches the device through `data/loader.h`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace brim::data {

struct Image {
  int width = 0, height = 0;
  /// height x width x 3 bytes.
  std::vector<uint8_t> pixels;

  Image() = default;
  /// A black image; both sides at least 1.
  Image(int image_width, int image_height)
      : width(image_width), height(image_height), pixels(bytes_of(image_width, image_height)) {}

  uint8_t* row(int y) { return pixels.data() + bytes_of(width, y); }
  const uint8_t* row(int y) const { return pixels.data() + bytes_of(width, y); }

  friend bool operator==(const Image&, const Image&) = default;

 private:
  static size_t bytes_of(int width, int height) {
    return static_cast<size_t>(width) * static_cast<size_t>(height) * 3;
  }
};

/// A rectangle of pixels; `x` and `y` are its left upper corner.
struct Box {
  int x = 0, y = 0, width = 0, height = 0;
  friend constexpr bool operator==(Box, Box) = default;
};

}  // namespace brim::data
