// Blocks of EXIF and pictures that have one, for tests of what reads them. For the pictures
// themselves see encode_image.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "brim/tests/support/png_bytes.h"

namespace brim::testing {

/// A TIFF header, the low byte first, and a directory with an orientation alone.
inline std::vector<uint8_t> exif_block(int orientation) {
  return {'I',
          'I',
          42,
          0,
          8,
          0,
          0,
          0,
          1,
          0,
          0x12,
          0x01,
          3,
          0,
          1,
          0,
          0,
          0,
          static_cast<uint8_t>(orientation),
          0,
          0,
          0,
          0,
          0,
          0,
          0};
}

/// The JPEG with the block in a segment APP1, before all others.
inline std::vector<uint8_t> with_exif(std::vector<uint8_t> jpeg, std::span<const uint8_t> block) {
  const size_t length = 2 + 6 + block.size();
  std::vector<uint8_t> segment{0xFF,
                               0xE1,
                               static_cast<uint8_t>(length >> 8),
                               static_cast<uint8_t>(length),
                               'E',
                               'x',
                               'i',
                               'f',
                               0,
                               0};
  segment.insert(segment.end(), block.begin(), block.end());
  jpeg.insert(jpeg.begin() + 2, segment.begin(), segment.end());
  return jpeg;
}

/// The PNG with the block in a chunk eXIf, after its header or before its end.
inline std::vector<uint8_t> with_exif_chunk(std::vector<uint8_t> png,
                                            std::span<const uint8_t> block, bool at_end) {
  constexpr std::string_view kName = "eXIf";
  std::vector<uint8_t> chunk(4);
  put_big_endian(chunk, static_cast<uint32_t>(block.size()));
  chunk.insert(chunk.end(), kName.begin(), kName.end());
  chunk.insert(chunk.end(), block.begin(), block.end());
  chunk.resize(chunk.size() + 4);
  const auto checked = std::span(chunk).subspan(4, kName.size() + block.size());
  put_big_endian(std::span(chunk).last(4), png_checksum(checked));
  constexpr ptrdiff_t kSignatureAndHeader = 8 + 25, kEnd = 12;
  const auto place = at_end ? png.end() - kEnd : png.begin() + kSignatureAndHeader;
  png.insert(place, chunk.begin(), chunk.end());
  return png;
}

}  // namespace brim::testing
