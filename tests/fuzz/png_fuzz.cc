// Feeds arbitrary bytes to the PNG decoder: it must give an image of the stated size or throw
// FileError. The format's checksums would stop nearly every changed input at its first chunk, so a
// copy with the right ones is tried too.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "brim/tests/fuzz/check_decoder.h"
#include "brim/tests/support/png_bytes.h"

namespace {

using brim::testing::png_checksum;
using brim::testing::put_big_endian;

// libpng and zlib: a window of 32 KiB, three rows of up to 8 bytes a pixel, tables. Nothing that
// grows with a chunk of text or a profile.
constexpr size_t kLibraryBytes = 1 << 20;

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && data[0] != 0x89) return -1;  // not for the corpus: it would be another format
  brim::testing::check_decoder({data, size}, 0, kLibraryBytes);
  if (size > 8) {
    std::vector<uint8_t> repaired(data, data + size);
    repair_checksums(repaired);
    brim::testing::check_decoder(repaired, 0, kLibraryBytes);
  }
  return 0;
}
