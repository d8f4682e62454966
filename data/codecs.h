// The two decoders behind `decode_image`. Use `data/decode.h`: these trust that the first bytes
// were checked.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "brim/data/decode.h"
#include "brim/data/image.h"

namespace brim::data {

inline constexpr const char* kDecodeTag = "decode_image";

Image decode_jpeg(std::span<const uint8_t> bytes, std::string_view name, DecodeOptions options);
Image decode_png(std::span<const uint8_t> bytes, std::string_view name, DecodeOptions options);

/// Throws `FileError` unless both sides are at least 1 and fit in `max_pixels` together.
void check_claimed_size(std::string_view format, std::string_view name, int64_t width,
                        int64_t height, int64_t max_pixels);

}  // namespace brim::data
