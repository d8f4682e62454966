// Feeds arbitrary bytes to the image decoder: it must give an image of the stated size or throw
// FileError. PNG's checksums would stop nearly every changed input at its first chunk, so a copy
// with the right ones is tried too.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "brim/base/error.h"
#include "brim/data/decode.h"
#include "brim/tests/support/png_bytes.h"

namespace {

using brim::data::DecodeOptions;
using brim::data::Image;
using brim::testing::png_checksum;
using brim::testing::put_big_endian;

constexpr int64_t kMaxPixels = 1 << 14;

uint32_t get_big_endian(std::span<const uint8_t> bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

/// Rewrites the checksum of each whole chunk: length, type, data, checksum.
void repair_checksums(std::vector<uint8_t>& png) {
  for (size_t at = 8; at + 12 <= png.size();) {
    size_t length = get_big_endian(std::span(png).subspan(at, 4));
    if (length > png.size() - at - 12) return;
    auto chunk = std::span(png).subspan(at);
    put_big_endian(chunk.subspan(8 + length), png_checksum(chunk.subspan(4, length + 4)));
    at += length + 12;
  }
}

void decode(std::span<const uint8_t> bytes, int target) {
  try {
    Image image =
        brim::data::decode_image(bytes, "fuzz", {.target = target, .max_pixels = kMaxPixels});
    size_t pixels = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
    brim::check(image.width > 0 && image.height > 0, "an image has pixels");
    brim::check(pixels <= kMaxPixels, "an image is no larger than allowed");
    brim::check(image.pixels.size() == pixels * 3, "an image has three bytes a pixel");
  } catch (const brim::FileError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const uint8_t> bytes(data, size);
  decode(bytes, 0);
  decode(bytes, 5);
  if (size > 8 && data[0] == 0x89) {
    std::vector<uint8_t> repaired(data, data + size);
    repair_checksums(repaired);
    decode(repaired, 0);
  }
  return 0;
}
