// Feeds arbitrary bytes to what looks for EXIF's orientation, as a whole file and as a block of
// EXIF: it must answer with one of the eight, and read nothing beyond the bytes.

#include <cstddef>
#include <cstdint>
#include <span>

#include "brim/base/error.h"
#include "brim/data/orientation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using brim::data::Orientation;
  for (const Orientation found :
       {brim::data::orientation_of({data, size}), brim::data::orientation_of_exif({data, size})})
    brim::check(found >= Orientation::upright && found <= Orientation::anticlockwise,
                "an orientation is one of eight");
  return 0;
}
