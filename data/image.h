// An image in host memory: 8-bit RGB, one byte a channel, rows from the top without padding.
//
// What decoders give and transforms take, whole or, where less is wanted, in part. Not a tensor: it
// has no dtype, device or gradient. A batch of prepared images reaches the device through
// `data/loader.h`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
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

/// Which part of an image of width x height is wanted: a box inside it.
using ChooseBox = std::function<Box(int width, int height)>;

/// Of an image of width x height the pixels in `box`, and no others.
struct ImagePart {
  Image pixels;
  Box box;
  int width = 0, height = 0;
};

/// All of it.
inline ImagePart whole(Image image) {
  const int width = image.width, height = image.height;
  return {std::move(image), {0, 0, width, height}, width, height};
}

/// The pixels of an image or of a part, which must outlive it.
struct ImageView {
  const uint8_t* pixels = nullptr;
  Box box;
  int width = 0, height = 0;  ///< of the whole image

  ImageView(const Image& image)
      : ImageView(image, {0, 0, image.width, image.height}, image.width, image.height) {}
  ImageView(const ImagePart& part) : ImageView(part.pixels, part.box, part.width, part.height) {}

  /// Of the whole image; inside `box`.
  const uint8_t* pixel(int x, int y) const {
    const int64_t row = y - box.y, column = x - box.x;
    return pixels + (row * box.width + column) * 3;
  }

 private:
  ImageView(const Image& image, Box of, int whole_width, int whole_height)
      : pixels(image.pixels.data()), box(of), width(whole_width), height(whole_height) {}
};

}  // namespace brim::data
