// JPEG and PNG files to RGB, as the field's loaders see them: alpha is dropped, grey is repeated,
// CMYK becomes RGB, colour profiles, gamma and the orientation tag are ignored.
//
// The bytes are untrusted. Sizes are checked before anything is allocated, and a file that is cut
// short or damaged is an error, never a half-grey image. Not for animations or other formats.
#pragma once

#include <cstdint>
#include <span>
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
};

/// Decodes a whole file held in memory; the format is told by its first bytes. `name` stands for
/// the file in errors. Thread-safe. Throws `FileError` naming the file and the reason when the
/// file is empty, neither JPEG nor PNG, too large, cut short or damaged.
Image decode_image(std::span<const uint8_t> bytes, std::string_view name,
                   DecodeOptions options = {});

/// At least the part that `wanted` names of what `decode_image` gives, the same bytes for less
/// work: of a JPEG what lies beside or below it is passed over, so that damage there is not found,
/// though a file that is cut short is. A PNG is always decoded whole. Throws as `decode_image`
/// does, and what `wanted` throws.
ImagePart decode_part(std::span<const uint8_t> bytes, std::string_view name,
                      const ChooseBox& wanted, DecodeOptions options = {});

}  // namespace brim::data
