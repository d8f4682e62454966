#include "brim/data/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "brim/base/error.h"
#include "brim/data/codecs.h"

namespace brim::data {
namespace {

constexpr std::array<uint8_t, 3> kJpegMagic{0xFF, 0xD8, 0xFF};
constexpr std::array<uint8_t, 8> kPngMagic{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

template <size_t N>
bool starts_with(std::span<const uint8_t> bytes, const std::array<uint8_t, N>& magic) {
  return bytes.size() >= N && std::equal(magic.begin(), magic.end(), bytes.begin());
}

/// The decoder's result: of a JPEG, or of a PNG.
template <class Jpeg, class Png>
auto decode(std::span<const uint8_t> bytes, std::string_view name, const Jpeg& jpeg,
            const Png& png) {
  expect<FileError>(!bytes.empty(), kDecodeTag, "'{}' is empty (0 bytes)", name);
  if (starts_with(bytes, kJpegMagic)) return jpeg();
  if (starts_with(bytes, kPngMagic)) return png();
  auto first = bytes.first(std::min<size_t>(bytes.size(), 8));
  raise<FileError>(kDecodeTag, "'{}' is neither JPEG nor PNG: it starts with the bytes {:02x}",
                   name, fmt::join(first, " "));
}

}  // namespace

Image decode_image(std::span<const uint8_t> bytes, std::string_view name, DecodeOptions options) {
  return decode(
      bytes, name, [&] { return decode_jpeg(bytes, name, options); },
      [&] { return decode_png(bytes, name, options); });
}

ImagePart decode_part(std::span<const uint8_t> bytes, std::string_view name,
                      const ChooseBox& wanted, DecodeOptions options) {
  return decode(
      bytes, name, [&] { return decode_jpeg_part(bytes, name, wanted, options); },
      [&] { return whole(decode_png(bytes, name, options)); });
}

void check_claimed_size(std::string_view format, std::string_view name, int64_t width,
                        int64_t height, int64_t max_pixels) {
  expect<FileError>(width > 0 && height > 0, kDecodeTag, "'{}' is a {} of {} x {} pixels", name,
                    format, width, height);
  // Both formats store sides below 2^31, so the product cannot overflow.
  expect<FileError>(width * height <= max_pixels, kDecodeTag,
                    "'{}' claims to be a {} of {} x {} = {} pixels, more than the limit of {}",
                    name, format, width, height, width * height, max_pixels);
}

}  // namespace brim::data
