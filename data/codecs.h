// The decoders behind `decode_image` and `decode_part`, on libjpeg and libpng. Use `data/decode.h`,
// which chooses one by the first bytes of the file and turns its pixels upright: these trust that
// the first bytes and `wanted` were checked, and leave pixels where they are stored. The sizes
// that a file claims are checked here, by each decoder, before it allocates pixels. A third format
// is one more function here and its first bytes in decode.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "brim/data/decode.h"
#include "brim/data/image.h"

namespace brim::data {

inline constexpr const char* kDecodeTag = "decode_image";

Image decode_jpeg(std::span<const uint8_t> bytes, std::string_view name,
                  const DecodeOptions& options);
ImagePart decode_jpeg_part(std::span<const uint8_t> bytes, std::string_view name,
                           const ChooseBox& wanted, const DecodeOptions& options);
Image decode_png(std::span<const uint8_t> bytes, std::string_view name,
                 const DecodeOptions& options);

/// Throws `FileError` unless both sides are at least 1 and fit in `max_pixels` together.
void check_claimed_size(std::string_view format, std::string_view name, int64_t width,
                        int64_t height, int64_t max_pixels);

}  // namespace brim::data
