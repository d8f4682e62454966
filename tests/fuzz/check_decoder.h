// What the fuzz targets of both image formats ask of the decoder: an image of a size that is
// allowed, or `FileError`, and no more memory than that size accounts for. For tests of what the
// pixels are see tests/data/decode_test.cc.
#pragma once

#include <cstdint>
#include <span>

#include "brim/base/error.h"
#include "brim/data/decode.h"
#include "brim/tests/support/allocation_limit.h"

namespace brim::testing {

inline constexpr int64_t kMaxFuzzPixels = 1 << 14;

/// Decodes with a limit of `kMaxFuzzPixels`; `more` is what the format's library may hold beside
/// the image, in bytes.
inline void check_decoder(std::span<const uint8_t> bytes, int target, size_t more) {
  AllocationLimit limit(bytes.size() + 3 * kMaxFuzzPixels + more);
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

}  // namespace brim::testing
