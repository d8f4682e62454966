// A folder of small pictures in two classes, for tests of programs that train on files. For one
// picture of a certain format see encode_image.h.
#pragma once

#include <string>
#include <vector>

#include "brim/tests/support/encode_image.h"
#include "brim/tests/support/temp_folder.h"

namespace brim::testing {

/// A JPEG of 32x32 pixels; another seed is another picture.
inline Bytes jpeg_picture(int seed) {
  JpegOptions options{.width = 32, .height = 32};
  std::vector<uint8_t> pixels(32 * 32 * 3);
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<uint8_t>(i * static_cast<size_t>(seed + 3));
  return encode_jpeg(options, pixels);
}

/// train/ and val/ with two classes, cat and dog, of `count` pictures each.
inline void write_pictures(const TempFolder& folder, int count) {
  for (std::string split : {"train", "val"})
    for (std::string kind : {"cat", "dog"})
      for (int i = 0; i < count; ++i)
        folder.write(split + "/" + kind + "/" + std::to_string(i) + ".jpg",
                     jpeg_picture(i + (kind == "cat" ? 0 : 100)));
}

}  // namespace brim::testing
