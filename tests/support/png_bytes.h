// What a test needs to change a PNG file and have it still be read: its CRC-32 and its order of
// bytes. A library of its own, so that the fuzz targets (tests/fuzz) have it without doctest. One
// bit at a time, which is enough for small files; to make a file use encode_image.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace brim::testing {

/// PNG's checksum of a chunk's type and data: with a wrong one a chunk is refused for that.
inline uint32_t png_checksum(std::span<const uint8_t> bytes) {
  uint32_t crc = ~0u;
  for (uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

/// Writes `value` to `to`'s first four bytes, the highest first.
inline void put_big_endian(std::span<uint8_t> to, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) to[i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

}  // namespace brim::testing
