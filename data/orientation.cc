#include "brim/data/orientation.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace brim::data {
namespace {

using Bytes = std::span<const uint8_t>;

enum class Order { little, big };

/// A whole number of `count` bytes at `at`; nothing beyond the end.
std::optional<uint32_t> number(Bytes bytes, size_t at, size_t count, Order order) {
  if (at > bytes.size() || count > bytes.size() - at) return {};
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i)
    value = value << 8 | bytes[at + (order == Order::big ? i : count - 1 - i)];
  return value;
}

bool starts_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// ---- Where the block is.

constexpr std::string_view kExifHeader{"Exif\0\0", 6};

/// The data of the first APP1 segment with EXIF. Stray bytes between segments are passed over, as
/// the decoder does.
Bytes exif_of_jpeg(Bytes file) {
  constexpr uint8_t kApp1 = 0xE1, kStartOfScan = 0xDA, kEnd = 0xD9;
  for (size_t at = 2; at < file.size();) {
    if (file[at] != 0xFF || at + 1 == file.size() || file[at + 1] == 0xFF || file[at + 1] == 0) {
      ++at;
      continue;
    }
    const uint8_t marker = file[at + 1];
    at += 2;
    if (marker == kStartOfScan || marker == kEnd) break;
    if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) continue;      // these have no data
    const std::optional<uint32_t> length = number(file, at, 2, Order::big);  // itself included
    if (!length || *length < 2 || *length > file.size() - at) break;
    const Bytes data = file.subspan(at + 2, *length - 2);
    if (marker == kApp1 && starts_with(data, kExifHeader)) return data.subspan(kExifHeader.size());
    at += *length;
  }
  return {};
}

/// The data of the first eXIf chunk: after a signature of eight bytes, chunks of a length, a name,
/// so many bytes, a checksum.
Bytes exif_of_png(Bytes file) {
  constexpr size_t kSignature = 8, kBefore = 8, kAfter = 4;
  for (size_t at = kSignature;;) {
    const std::optional<uint32_t> length = number(file, at, 4, Order::big);
    if (!length || file.size() - at < kBefore || *length > file.size() - at - kBefore) return {};
    const Bytes name = file.subspan(at + 4);
    if (starts_with(name, "eXIf")) return file.subspan(at + kBefore, *length);
    at += kBefore + *length;
    if (starts_with(name, "IEND") || file.size() - at < kAfter) return {};
    at += kAfter;
  }
}

// ---- How a picture is turned.

/// First both sides change places, of what is seen; then columns and rows are counted from the
/// other end.
struct Turn {
  bool swaps, mirrors_x, mirrors_y;
};

Turn turn_of(Orientation orientation) {
  using enum Orientation;
  const auto is = [&](auto... any) { return ((orientation == any) || ...); };
  return {.swaps = is(transposed, clockwise, transversed, anticlockwise),
          .mirrors_x = is(mirrored, upside_down, transversed, anticlockwise),
          .mirrors_y = is(upside_down, flipped, clockwise, transversed)};
}

Box swapped(Box box) { return {box.y, box.x, box.height, box.width}; }

Box mirrored_box(Box box, const Turn& turn, int width, int height) {
  if (turn.mirrors_x) box.x = width - box.x - box.width;
  if (turn.mirrors_y) box.y = height - box.y - box.height;
  return box;
}

Image turned(const Image& stored, const Turn& turn) {
  Image seen(turn.swaps ? stored.height : stored.width, turn.swaps ? stored.width : stored.height);
  // In squares, so that both images' lines stay in the cache where rows become columns.
  constexpr int kSquare = 32;
  const auto copy = [&](int x, int y) {
    const int column = turn.swaps ? y : x, row = turn.swaps ? x : y;
    const uint8_t* from = stored.row(turn.mirrors_y ? stored.height - 1 - row : row) +
                          3 * (turn.mirrors_x ? stored.width - 1 - column : column);
    std::copy_n(from, 3, seen.row(y) + 3 * x);
  };
  for (int top = 0; top < seen.height; top += kSquare)
    for (int left = 0; left < seen.width; left += kSquare)
      for (int y = top; y < std::min(top + kSquare, seen.height); ++y)
        for (int x = left; x < std::min(left + kSquare, seen.width); ++x) copy(x, y);
  return seen;
}

}  // namespace

Orientation orientation_of_exif(std::span<const uint8_t> block) {
  constexpr uint32_t kTag = 0x0112, kShort = 3, kEntryBytes = 12;
  const Order order = starts_with(block, "II") ? Order::little : Order::big;
  if (order == Order::big && !starts_with(block, "MM")) return Orientation::upright;
  const std::optional<uint32_t> directory = number(block, 4, 4, order);
  if (number(block, 2, 2, order) != 42u || !directory) return Orientation::upright;
  const uint32_t entries = number(block, *directory, 2, order).value_or(0);
  for (uint32_t i = 0; i < entries; ++i) {
    // A tag, the type of its values, how many, and these where they fit into four bytes.
    const size_t at = size_t{*directory} + 2 + size_t{i} * kEntryBytes;
    const std::optional<uint32_t> tag = number(block, at, 2, order);
    if (!tag) break;
    if (*tag != kTag) continue;
    const std::optional<uint32_t> value = number(block, at + 8, 2, order);
    if (number(block, at + 2, 2, order) != kShort || number(block, at + 4, 4, order) != 1u ||
        !value || *value < 1 || *value > 8)
      break;
    return static_cast<Orientation>(*value);
  }
  return Orientation::upright;
}

Orientation orientation_of(std::span<const uint8_t> file) {
  return orientation_of_exif(starts_with(file, "\x89PNG") ? exif_of_png(file) : exif_of_jpeg(file));
}

bool swaps_sides(Orientation orientation) { return turn_of(orientation).swaps; }

Box stored_box(Box seen, Orientation orientation, int width, int height) {
  const Turn turn = turn_of(orientation);
  return mirrored_box(turn.swaps ? swapped(seen) : seen, turn, width, height);
}

ImagePart turned(ImagePart stored, Orientation orientation) {
  if (orientation == Orientation::upright) return stored;
  const Turn turn = turn_of(orientation);
  ImagePart seen{.pixels = turned(stored.pixels, turn),
                 .box = mirrored_box(stored.box, turn, stored.width, stored.height),
                 .width = stored.width,
                 .height = stored.height};
  if (turn.swaps) {
    seen.box = swapped(seen.box);
    std::swap(seen.width, seen.height);
  }
  return seen;
}

}  // namespace brim::data
