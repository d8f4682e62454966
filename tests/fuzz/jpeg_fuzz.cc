// Feeds arbitrary bytes to the JPEG decoder, at full size and reduced, whole and in part: it must
// give an image of the stated size or throw FileError.

#include <cstddef>
#include <cstdint>

#include "brim/tests/fuzz/check_decoder.h"

// libjpeg: of a progressive file all coefficients, 2 bytes each for up to four channels, whose
// sides are rounded up to 32. A row or a column of as many pixels as are allowed then has
// 32 * (kMaxFuzzPixels + 32) of them in each channel: 4 MiB. The other half is for rows and tables.
static constexpr size_t kLibraryBytes = 8 << 20;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && data[0] != 0xFF) return -1;  // not for the corpus: it would be another format
  for (int target : {0, 5}) {
    brim::testing::check_decoder({data, size}, target, kLibraryBytes);
    brim::testing::check_part({data, size}, target, kLibraryBytes);
  }
  return 0;
}
