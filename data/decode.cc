#include "brim/data/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "brim/base/error.h"
#include "brim/data/codecs.h"
#include "brim/data/orientation.h"

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

Orientation wanted_orientation(std::span<const uint8_t> bytes, const DecodeOptions& options) {
  return options.exif ? orientation_of(bytes) : Orientation::upright;
}

void check_inside(Box box, int width, int height) {
  expect<ValueError>(box.x >= 0 && box.y >= 0 && box.width > 0 && box.height > 0 &&
                         box.width <= width - box.x && box.height <= height - box.y,
                     kDecodeTag,
                     "expected a part inside the image of {} x {}, got {} x {} at ({}, {})", width,
                     height, box.width, box.height, box.x, box.y);
}

}  // namespace

Image decode_image(std::span<const uint8_t> bytes, std::string_view name,
                   const DecodeOptions& options) {
  Image image = decode(
      bytes, name, [&] { return decode_jpeg(bytes, name, options); },
      [&] { return decode_png(bytes, name, options); });
  return turned(whole(std::move(image)), wanted_orientation(bytes, options)).pixels;
}

ImagePart decode_part(std::span<const uint8_t> bytes, std::string_view name,
                      const ChooseBox& wanted, const DecodeOptions& options) {
  const Orientation orientation = wanted_orientation(bytes, options);
  const ChooseBox stored = [&](int width, int height) {
    const bool swaps = swaps_sides(orientation);
    const int across = swaps ? height : width, down = swaps ? width : height;
    const Box box = wanted(across, down);
    check_inside(box, across, down);
    return stored_box(box, orientation, width, height);
  };
  ImagePart part = decode(
      bytes, name, [&] { return decode_jpeg_part(bytes, name, stored, options); },
      [&] { return whole(decode_png(bytes, name, options)); });
  return turned(std::move(part), orientation);
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
