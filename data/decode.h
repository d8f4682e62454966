// JPEG and PNG files to RGB, as the field's loaders see them: alpha is dropped, grey is repeated,
// CMYK becomes RGB (its inks as Adobe stores them, whether or not the file says so), colour
// profiles and gamma are ignored. Unlike theirs, pictures are turned the way up that EXIF says.
//
// The bytes are untrusted. Sizes are checked before anything is allocated, and a file that is cut
// short or damaged is an error, never a half-grey image. Not for animations or other formats.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "brim/data/image.h"

namespace brim::data {

struct DecodeOptions {
  /// The shorter side wanted, in pixels; 0 is full size. A JPEG is then decoded at the smallest
  /// of 1/8, 1/4, 1/2 and 1/1 of its size whose shorter side has at least this many pixels (or at
  /// 1/1), which skips most of the work for large photographs: near to what resizing would make
  /// of it, not the same bytes. A PNG is always full size.
  int target = 0;
  /// Files that claim more pixels than this are refused.
  int64_t max_pixels = 100'000'000;
  /// Turn the picture the way up that EXIF says (of a JPEG's first such block, of a PNG's eXIf);
  /// otherwise pixels stay where they are stored.
  bool exif = true;
  /// Told of a fault that leaves every pixel as its encoder meant it: a PNG that ends after its
  /// pixels. Such a file is no error.
  std::function<void(const std::string& fault)> note = {};
};

/// Decodes a whole file held in memory; the format is told by its first bytes. `name` stands for
/// the file in errors. Thread-safe. Throws `FileError` naming the file and the reason when the
/// file is empty, neither JPEG nor PNG, too large, cut short or damaged.
Image decode_image(std::span<const uint8_t> bytes, std::string_view name,
                   const DecodeOptions& options = {});

/// At least the part that `wanted` names of what `decode_image` gives, the same bytes for less
/// work: of a JPEG what lies beside or below it is passed over, so that damage there is not found,
/// though a file that is cut short is. A PNG is always decoded whole. Throws as `decode_image`
/// does, and what `wanted` throws.
ImagePart decode_part(std::span<const uint8_t> bytes, std::string_view name,
                      const ChooseBox& wanted, const DecodeOptions& options = {});

}  // namespace brim::data
