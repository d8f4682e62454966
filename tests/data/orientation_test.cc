// Proves that pictures are turned the way up that EXIF says, whole and in part, and that bytes
// which only look like EXIF turn nothing. For the pixels that others see:
// tests/golden/pictures_test.cc.
#include "brim/data/orientation.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "brim/base/error.h"
#include "brim/base/random.h"
#include "brim/data/decode.h"
#include "brim/tests/support/encode_image.h"
#include "brim/tests/support/exif_bytes.h"

using namespace brim;
using namespace brim::data;
using namespace brim::testing;

namespace {

constexpr const char* kName = "some/where.img";

Bytes jpeg(int width, int height) {
  return encode_jpeg({.width = width, .height = height, .subsampling = true},
                     smooth_picture(width, height));
}

/// Pixel (x, y) of what is seen, by the table of the standard: which stored row and column are its
/// first row and first column.
const uint8_t* seen_pixel(const Image& stored, int orientation, int x, int y) {
  const int right = stored.width - 1, bottom = stored.height - 1;
  const std::vector<Box> places{
      {x, y, 0, 0}, {right - x, y, 0, 0},  {right - x, bottom - y, 0, 0}, {x, bottom - y, 0, 0},
      {y, x, 0, 0}, {y, bottom - x, 0, 0}, {right - y, bottom - x, 0, 0}, {right - y, x, 0, 0}};
  const Box place = places[static_cast<size_t>(orientation - 1)];
  return stored.row(place.y) + 3 * place.x;
}

}  // namespace

TEST_CASE("every orientation puts each pixel where it is seen") {
  const Bytes plain = jpeg(70, 45);
  for (int target : {0, 12}) {
    const Image stored = decode_image(plain, kName, {.target = target});
    for (int orientation = 1; orientation <= 8; ++orientation) {
      CAPTURE(orientation);
      const Bytes tagged = with_exif(plain, exif_block(orientation));
      CHECK(decode_image(tagged, kName, {.target = target, .exif = false}) == stored);
      const Image seen = decode_image(tagged, kName, {.target = target});
      const bool swaps = orientation > 4;
      REQUIRE(seen.width == (swaps ? stored.height : stored.width));
      REQUIRE(seen.height == (swaps ? stored.width : stored.height));
      int wrong = 0;
      for (int y = 0; y < seen.height; ++y)
        for (int x = 0; x < seen.width; ++x)
          wrong += !std::equal(seen.row(y) + 3 * x, seen.row(y) + 3 * x + 3,
                               seen_pixel(stored, orientation, x, y));
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a part of a turned picture has the bytes of the whole, and is asked for as it is seen") {
  RandomStream random(RandomKey{7});
  const Bytes plain = jpeg(131, 98);
  auto below = [&](int n) { return static_cast<int>(random.below(static_cast<uint64_t>(n))); };
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Bytes tagged = with_exif(plain, exif_block(orientation));
    for (int target : {0, 30}) {
      const Image all = decode_image(tagged, kName, {.target = target});
      for (int i = 0; i < 20; ++i) {
        Box box{below(all.width), below(all.height), 0, 0};
        box.width = 1 + below(all.width - box.x);
        box.height = 1 + below(all.height - box.y);
        const ImagePart part = decode_part(tagged, kName,
                                           [&](int width, int height) {
                                             CHECK(width == all.width);
                                             CHECK(height == all.height);
                                             return box;
                                           },
                                           {.target = target});
        CAPTURE(orientation);
        REQUIRE(part.width == all.width);
        REQUIRE(part.height == all.height);
        const ImageView view = part;
        int wrong = 0;
        for (int y = box.y; y < box.y + box.height; ++y)
          wrong += !std::equal(view.pixel(box.x, y), view.pixel(box.x, y) + 3 * box.width,
                               all.row(y) + 3 * box.x);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("a part outside of what is seen is refused by its numbers") {
  const Bytes tagged = with_exif(jpeg(64, 48), exif_block(6));
  CHECK_THROWS_WITH_AS(decode_part(tagged, kName,
                                   [](int, int) {
                                     return Box{0, 0, 64, 48};
                                   }),
                       "decode_image: expected a part inside the image of 48 x 64, got 64 x 48 at "
                       "(0, 0)",
                       ValueError);
}

TEST_CASE("the block is found wherever it may be in a file") {
  const Bytes plain = jpeg(8, 8);
  const Bytes tagged = with_exif(plain, exif_block(8));
  CHECK(orientation_of(plain) == Orientation::upright);
  CHECK(orientation_of(tagged) == Orientation::anticlockwise);
  // Another APP1 (of XMP, say) before it, stray bytes, and fill bytes.
  Bytes before{0xFF, 0xE1, 0, 8, 'h', 't', 't', 'p', ':', 0, 'x', 'y', 0xFF, 0xFF};
  Bytes late = tagged;
  late.insert(late.begin() + 2, before.begin(), before.end());
  CHECK(orientation_of(late) == Orientation::anticlockwise);
  // The first one counts, and none after the pixels have begun.
  CHECK(orientation_of(with_exif(tagged, exif_block(3))) == Orientation::upside_down);
  Bytes after = plain;
  const Bytes segment(tagged.begin() + 2, tagged.begin() + 2 + (tagged.end() - tagged.begin()) -
                                              static_cast<ptrdiff_t>(plain.size()));
  after.insert(after.end() - 2, segment.begin(), segment.end());
  CHECK(orientation_of(after) == Orientation::upright);

  const Bytes png = encode_png({.width = 5, .height = 3}, smooth_picture(5, 3));
  CHECK(orientation_of(png) == Orientation::upright);
  for (bool at_end : {false, true}) {
    const Bytes turned = with_exif_chunk(png, exif_block(5), at_end);
    CHECK(orientation_of(turned) == Orientation::transposed);
    CHECK(decode_image(turned, kName).width == 3);
    CHECK(decode_image(turned, kName, {.exif = false}).width == 5);
  }
}

TEST_CASE("a block that makes no sense turns nothing, cut at any byte") {
  const Bytes block = exif_block(6);
  REQUIRE(orientation_of_exif(block) == Orientation::clockwise);
  for (size_t length = 0; length < block.size(); ++length) {
    const Orientation cut = orientation_of_exif(std::span(block).first(length));
    // The value's two unused bytes and the place of the next directory are not looked at.
    CHECK(cut == (length < block.size() - 6 ? Orientation::upright : Orientation::clockwise));
  }
  auto changed = [&](size_t at, uint8_t value) {
    Bytes bytes = block;
    bytes.at(at) = value;
    return orientation_of_exif(bytes);
  };
  const size_t entry = 8 + 2;                                             // the header, the count
  for (auto [at, value] : std::vector<std::pair<size_t, int>>{{0, 'M'},   // two orders
                                                              {2, 43},    // no TIFF
                                                              {7, 0xFF},  // a directory far away
                                                              {8, 0},     // of no entries
                                                              {entry, 0x13},   // another tag
                                                              {entry + 2, 4},  // another type
                                                              {entry + 4, 2},  // two values
                                                              {entry + 8, 0},
                                                              {entry + 8, 9},
                                                              {entry + 9, 1}})
    CHECK(changed(at, static_cast<uint8_t>(value)) == Orientation::upright);
  const Bytes tagged = with_exif(jpeg(8, 8), block);
  for (size_t length = 0; length < tagged.size(); ++length)
    CHECK_NOTHROW(orientation_of(std::span(tagged).first(length)));
}
