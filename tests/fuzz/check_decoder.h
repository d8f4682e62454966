// What the fuzz targets of both image formats ask of the decoder: an image of a size that is
// allowed, or `FileError`, and no more memory than that size accounts for. For tests of what the
// pixels are see tests/data/decode_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "brim/base/error.h"
#include "brim/data/decode.h"
#include "brim/tests/support/allocation_limit.h"

namespace brim::testing {

inline constexpr int64_t kMaxFuzzPixels = 1 << 14;

/// The bytes of the largest image that is decoded, and of its copy while it is turned.
inline constexpr size_t kImageBytes = 2 * 3 * kMaxFuzzPixels;

/// Decodes with a limit of `kMaxFuzzPixels`; `more` is what the format's library may hold beside
/// the image, in bytes.
inline void check_decoder(std::span<const uint8_t> bytes, int target, size_t more) {
  AllocationLimit limit(bytes.size() + kImageBytes + more);
  try {
    data::Image image =
        data::decode_image(bytes, "fuzz", {.target = target, .max_pixels = kMaxFuzzPixels});
    size_t pixels = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
    check(image.width > 0 && image.height > 0, "an image has pixels");
    check(pixels <= kMaxFuzzPixels, "an image is no larger than allowed");
    check(image.pixels.size() == pixels * 3, "an image has three bytes a pixel");
  } catch (const FileError&) {
  }
}

/// Decodes the middle of the image, within the same limits: the same pixels as of the whole, where
/// that can be had.
inline void check_part(std::span<const uint8_t> bytes, int target, size_t more) {
  const data::DecodeOptions options{.target = target, .max_pixels = kMaxFuzzPixels};
  data::Image whole;
  try {
    whole = data::decode_image(bytes, "fuzz", options);
  } catch (const FileError&) {
  }
  data::Box box;
  auto middle = [&](int width, int height) {
    return box = {width / 3, height / 3, (width + 2) / 3, (height + 2) / 3};
  };
  AllocationLimit limit(bytes.size() + kImageBytes + more);
  try {
    const data::ImagePart part = data::decode_part(bytes, "fuzz", middle, options);
    const data::ImageView view = part;
    for (int y = box.y; !whole.pixels.empty() && y < box.y + box.height; ++y)
      check(std::equal(whole.row(y) + box.x * 3, whole.row(y) + (box.x + box.width) * 3,
                       view.pixel(box.x, y)),
            "a part has the pixels of the whole");
  } catch (const FileError&) {
    check(whole.pixels.empty(), "what can be decoded whole can be decoded in part");
  }
}

}  // namespace brim::testing
