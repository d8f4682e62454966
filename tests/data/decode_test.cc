// Proves that every kind of JPEG and PNG becomes the right RGB, and that bytes from outside never
// do anything but decode or throw FileError with the file's name.
#include "brim/data/decode.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <string>
#include <vector>

#include "brim/base/error.h"
#include "brim/base/random.h"
#include "brim/tests/support/encode_image.h"
#include "brim/tests/support/png_bytes.h"

using namespace brim;
using namespace brim::data;
using namespace brim::testing;

namespace {

constexpr const char* kName = "some/where.img";

/// What decoding says; "" where it gives an image.
std::string error_of(std::span<const uint8_t> bytes, DecodeOptions options = {}) {
  try {
    decode_image(bytes, kName, options);
    return "";
  } catch (const FileError& error) {
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

double mean_difference(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(int{a[i]} - int{b[i]});
  return sum / static_cast<double>(a.size());
}

/// Bytes of a PNG that follow its pixels and their checksum.
constexpr size_t kAfterPixels = 12;

Bytes small_jpeg(JpegOptions options = {}) {
  if (options.width == 0) options.width = 21, options.height = 13;
  return encode_jpeg(options, smooth_picture(options.width, options.height));
}

/// Pixels that share nothing with their neighbours; of each kind another file.
const std::vector<JpegOptions> kKinds{
    {.width = 130, .height = 97, .subsampling = true},
    {.width = 131, .height = 98},
    {.width = 132, .height = 99, .progressive = true, .subsampling = true},
    {.width = 133, .height = 100, .restart_interval = 3, .subsampling = true},
    {.width = 128, .height = 97, .brightness_x = 2},
    {.width = 129, .height = 98, .brightness_y = 2},
    {.width = 130, .height = 99, .brightness_x = 4},
    {.width = 131, .height = 100, .brightness_x = 4, .brightness_y = 2},
    {.width = 132, .height = 101, .progressive = true, .brightness_x = 3},
    {.width = 134, .height = 101, .in = JCS_GRAYSCALE},
    {.width = 135, .height = 102, .in = JCS_CMYK},
    {.width = 17, .height = 130, .subsampling = true},
    {.width = 130, .height = 15, .subsampling = true}};

Bytes noisy_jpeg(const JpegOptions& options) {
  const size_t channels = options.in == JCS_GRAYSCALE ? 1 : options.in == JCS_CMYK ? 4 : 3;
  Bytes samples(channels * static_cast<size_t>(options.width) *
                static_cast<size_t>(options.height));
  RandomStream random(RandomKey{3});
  for (uint8_t& sample : samples) sample = static_cast<uint8_t>(random.below(256));
  return encode_jpeg(options, samples);
}

Box random_box(int width, int height, RandomStream& random) {
  auto below = [&](int n) { return static_cast<int>(random.below(static_cast<uint64_t>(n))); };
  const int x = below(width), y = below(height);
  return {x, y, 1 + below(width - x), 1 + below(height - y)};
}

bool holds(const ImagePart& part, Box box) {
  return box.x >= part.box.x && box.y >= part.box.y &&
         box.x + box.width <= part.box.x + part.box.width &&
         box.y + box.height <= part.box.y + part.box.height;
}

Image cut(const ImageView& image, Box box) {
  Image result(box.width, box.height);
  for (int y = 0; y < box.height; ++y)
    std::copy_n(image.pixel(box.x, box.y + y), box.width * 3, result.row(y));
  return result;
}

Bytes small_png(int width = 21, int height = 13, bool interlaced = false) {
  return encode_png({.width = width, .height = height, .interlaced = interlaced},
                    smooth_picture(width, height));
}

Bytes repeat(std::initializer_list<uint8_t> sample, int count) {
  Bytes bytes;
  for (int i = 0; i < count; ++i) bytes.insert(bytes.end(), sample);
  return bytes;
}

void check_pixel(const Image& image, int x, int y, std::array<int, 3> rgb, int tolerance) {
  CAPTURE(x);
  CAPTURE(y);
  for (int i = 0; i < 3; ++i) CHECK(std::abs(image.row(y)[x * 3 + i] - rgb[i]) <= tolerance);
}

Bytes png_claiming(uint32_t width, uint32_t height) {
  Bytes bytes = small_png();
  auto header = std::span(bytes).subspan(12, 17);  // its type, width, height, ...
  put_big_endian(header.subspan(4), width);
  put_big_endian(header.subspan(8), height);
  put_big_endian(std::span(bytes).subspan(29), png_checksum(header));
  return bytes;
}

/// A JPEG's frame header: FF C0 or FF C2, length, precision, height, width.
Bytes jpeg_claiming(uint16_t width, uint16_t height) {
  Bytes bytes = small_jpeg();
  const uint8_t marker[] = {0xFF, 0xC0};
  auto frame = std::ranges::search(bytes, marker).begin();
  REQUIRE(frame != bytes.end());
  frame[5] = static_cast<uint8_t>(height >> 8), frame[6] = static_cast<uint8_t>(height);
  frame[7] = static_cast<uint8_t>(width >> 8), frame[8] = static_cast<uint8_t>(width);
  return bytes;
}

}  // namespace

TEST_CASE("a colour JPEG comes back as it was drawn") {
  Bytes rgb = smooth_picture(37, 23);
  for (bool progressive : {false, true}) {
    Image image = decode_image(
        encode_jpeg({.width = 37, .height = 23, .quality = 100, .progressive = progressive}, rgb),
        kName);
    CHECK(image.width == 37);
    CHECK(image.height == 23);
    // At quality 100 coefficients are rounded to whole numbers: 0.29 rms in each of Y, Cb and Cr,
    // at most 0.29 * (1 + 1.772) once they are RGB, and 0.5 for rounding to bytes.
    CHECK(mean_difference(image.pixels, rgb) < 1.4);
  }
}

TEST_CASE("a part of a JPEG has the bytes of the whole") {
  RandomStream random(RandomKey{5});
  for (const JpegOptions& options : kKinds) {
    const Bytes bytes = noisy_jpeg(options);
    for (int target : {0, 20, 40, 60}) {
      const Image all = decode_image(bytes, kName, {.target = target});
      for (int i = 0; i < 40; ++i) {
        const Box box = random_box(all.width, all.height, random);
        ImagePart part =
            decode_part(bytes, kName, [&](int, int) { return box; }, {.target = target});
        CAPTURE(options.width);
        CAPTURE(target);
        CHECK(holds(part, box));
        CHECK(cut(part, box) == cut(all, box));
      }
    }
  }
}

TEST_CASE("a part is chosen by the size of what is decoded, and lies inside") {
  const Bytes jpeg = small_jpeg({.width = 64, .height = 48});
  auto error_of_box = [&](Box box) {
    try {
      decode_part(jpeg, kName, [&](int, int) { return box; });
      return std::string();
    } catch (const ValueError& error) {
      return std::string(error.what());
    }
  };
  for (Box box :
       {Box{-1, 0, 4, 4}, {0, -1, 4, 4}, {0, 0, 65, 4}, {61, 0, 4, 4}, {0, 45, 4, 4}, {0, 0, 0, 4}})
    CHECK(contains(error_of_box(box), "expected a part inside the image of 64 x 48"));
  ImagePart part = decode_part(jpeg, kName,
                               [](int width, int height) {
                                 CHECK(width == 32);
                                 CHECK(height == 24);
                                 return Box{31, 23, 1, 1};
                               },
                               {.target = 13});
  CHECK(part.width == 32);
  CHECK(part.height == 24);
  const Bytes png = small_png();
  ImagePart all = decode_part(png, kName, [](int, int) { return Box{1, 1, 2, 2}; });
  CHECK(all.box == Box{0, 0, 21, 13});
  CHECK(all.pixels == decode_image(png, kName));
}

TEST_CASE("a part of a file cut at any length is an error that names it") {
  auto top = [](int width, int) { return Box{0, 0, width, 1}; };
  JpegOptions restarts{.width = 40, .height = 40, .restart_interval = 1};
  for (const Bytes& bytes : {noisy_jpeg({.width = 40, .height = 40}), noisy_jpeg(restarts),
                             noisy_jpeg({.width = 40, .height = 40, .progressive = true})}) {
    REQUIRE_NOTHROW(decode_part(bytes, kName, top));
    for (size_t length = 0; length < bytes.size(); ++length) {
      CAPTURE(length);
      CHECK_THROWS_AS(decode_part(std::span(bytes).first(length), kName, top), FileError);
    }
  }
  const Bytes bytes = noisy_jpeg({.width = 40, .height = 40});
  CHECK_THROWS_WITH_AS(
      decode_part(std::span(bytes).first(bytes.size() - 2), kName, top),
      "decode_image: JPEG 'some/where.img': it is cut short: the data ends before the image does",
      FileError);
}

TEST_CASE("a part of a file with any damaged byte is an image or an error, never a crash") {
  auto middle = [](int width, int height) {
    return Box{width / 3, height / 3, (width + 2) / 3, (height + 2) / 3};
  };
  DecodeOptions options{.max_pixels = 1 << 16};
  for (const Bytes& bytes : {small_jpeg(), small_jpeg({.progressive = true})}) {
    for (size_t at = 0; at < bytes.size(); ++at)
      for (uint8_t flip : {0x01, 0x80, 0xFF}) {
        Bytes damaged = bytes;
        damaged[at] ^= flip;
        try {
          ImagePart part = decode_part(damaged, kName, middle, options);
          CHECK(holds(part, middle(part.width, part.height)));
        } catch (const FileError& error) {
          CHECK(contains(error.what(), kName));
        }
      }
  }
}

TEST_CASE("a progressive JPEG decodes to the bytes of the baseline one") {
  CHECK(decode_image(small_jpeg(), kName) ==
        decode_image(small_jpeg({.progressive = true}), kName));
}

TEST_CASE("a grey JPEG repeats its channel") {
  Bytes grey(16 * 8, 77);
  Image image =
      decode_image(encode_jpeg({.width = 16, .height = 8, .in = JCS_GRAYSCALE}, grey), kName);
  CHECK(image.pixels.size() == 16 * 8 * 3);
  check_pixel(image, 15, 7, {77, 77, 77}, 1);
}

TEST_CASE("CMYK becomes RGB, its inks stored inverted whether or not Adobe's marker says so") {
  // Inverted inks 200, 100, 50 and key 128: light is the product over 255.
  Bytes inverted = repeat({200, 100, 50, 128}, 64);
  JpegOptions options{.width = 8, .height = 8, .in = JCS_CMYK, .quality = 100};
  check_pixel(decode_image(encode_jpeg(options, inverted), kName), 3, 3, {100, 50, 25}, 2);
  options.file = JCS_YCCK;
  check_pixel(decode_image(encode_jpeg(options, inverted), kName), 3, 3, {100, 50, 25}, 2);
  options.file = JCS_CMYK;
  options.adobe_marker = false;
  check_pixel(decode_image(encode_jpeg(options, inverted), kName), 3, 3, {100, 50, 25}, 2);
}

TEST_CASE("a JPEG is decoded at the smallest of 1/8, 1/4, 1/2 and 1/1 that is enough") {
  Bytes bytes = small_jpeg({.width = 64, .height = 48});
  struct Case {
    int target, width, height;
  };
  for (auto [target, width, height] : {Case{0, 64, 48},
                                       {1, 8, 6},
                                       {6, 8, 6},
                                       {7, 16, 12},
                                       {12, 16, 12},
                                       {13, 32, 24},
                                       {24, 32, 24},
                                       {25, 64, 48},
                                       {48, 64, 48},
                                       {1000, 64, 48}}) {
    CAPTURE(target);
    Image image = decode_image(bytes, kName, {.target = target});
    CHECK(image.width == width);
    CHECK(image.height == height);
  }
  // Sides are rounded up.
  Image odd = decode_image(small_jpeg({.width = 65, .height = 49}), kName, {.target = 7});
  CHECK(odd.width == 9);
  CHECK(odd.height == 7);
}

TEST_CASE("a reduced JPEG shows the same picture") {
  Image eighth = decode_image(small_jpeg({.width = 64, .height = 64}), kName, {.target = 8});
  // Each pixel is the mean of 8 x 8 of the drawing, whose middle is at 8i + 3.5; 2 for JPEG.
  for (int i : {0, 3, 7}) {
    int value = static_cast<int>(255 * (8 * i + 3.5) / 64);
    check_pixel(eighth, i, i, {value, value, 255 - value}, 3);
  }
}

TEST_CASE("a PNG comes back to the bit, interlaced or not") {
  Bytes rgb = smooth_picture(21, 13);
  CHECK(decode_image(small_png(), kName).pixels == rgb);
  CHECK(decode_image(small_png(21, 13, true), kName).pixels == rgb);
  // Smaller than an interlacing pass.
  CHECK(decode_image(small_png(1, 1, true), kName).pixels == smooth_picture(1, 1));
}

TEST_CASE("16-bit channels are rounded to 8 bits") {
  Bytes row{0x12, 0xFF, 0x00, 0x7F, 0xFF, 0xFF};  // 0x12FF = 18.92 * 257, 0x007F = 0.49 * 257
  Image image = decode_image(encode_png({.width = 1, .height = 1, .bit_depth = 16}, row), kName);
  check_pixel(image, 0, 0, {19, 0, 255}, 0);
  Bytes grey{0x80, 0x80};
  image = decode_image(
      encode_png({.width = 1, .height = 1, .color_type = PNG_COLOR_TYPE_GRAY, .bit_depth = 16},
                 grey),
      kName);
  check_pixel(image, 0, 0, {128, 128, 128}, 0);
}

TEST_CASE("grey of few bits spans the whole range") {
  struct Case {
    int depth;
    uint8_t row;
    std::array<int, 2> values;
  };
  for (auto [depth, row, values] :
       {Case{1, 0b10000000, {255, 0}}, {2, 0b01110000, {85, 255}}, {4, 0x5A, {85, 170}}}) {
    CAPTURE(depth);
    Image image = decode_image(
        encode_png({.width = 2, .height = 1, .color_type = PNG_COLOR_TYPE_GRAY, .bit_depth = depth},
                   Bytes{row}),
        kName);
    for (int x : {0, 1}) check_pixel(image, x, 0, {values[x], values[x], values[x]}, 0);
  }
}

TEST_CASE("palettes are looked up") {
  PngOptions options{.width = 4,
                     .height = 1,
                     .color_type = PNG_COLOR_TYPE_PALETTE,
                     .bit_depth = 2,
                     .palette = {{1, 2, 3}, {250, 0, 9}, {7, 7, 7}}};
  Image image = decode_image(encode_png(options, Bytes{0b01001000}), kName);
  check_pixel(image, 0, 0, {250, 0, 9}, 0);
  check_pixel(image, 1, 0, {1, 2, 3}, 0);
  check_pixel(image, 2, 0, {7, 7, 7}, 0);
}

TEST_CASE("alpha, transparent colours and gamma leave the colours alone") {
  Bytes rgba{10, 20, 30, 0, 40, 50, 60, 128};
  Image image = decode_image(
      encode_png({.width = 2, .height = 1, .color_type = PNG_COLOR_TYPE_RGB_ALPHA}, rgba), kName);
  CHECK(image.pixels == Bytes{10, 20, 30, 40, 50, 60});

  Bytes grey_alpha{99, 3};
  image = decode_image(
      encode_png({.width = 1, .height = 1, .color_type = PNG_COLOR_TYPE_GRAY_ALPHA}, grey_alpha),
      kName);
  CHECK(image.pixels == Bytes{99, 99, 99});

  PngOptions options{.width = 1, .height = 1};
  options.more = [](png_structp png, png_infop info) {
    png_color_16 color{0, 10, 20, 30, 0};
    png_set_tRNS(png, info, nullptr, 0, &color);
    png_set_gAMA(png, info, 1.0);
  };
  CHECK(decode_image(encode_png(options, Bytes{10, 20, 30}), kName).pixels == Bytes{10, 20, 30});

  options.color_type = PNG_COLOR_TYPE_PALETTE;
  options.palette = {{5, 6, 7}};
  options.more = [](png_structp png, png_infop info) {
    const png_byte alpha = 0;
    png_set_tRNS(png, info, &alpha, 1, nullptr);
  };
  CHECK(decode_image(encode_png(options, Bytes{0}), kName).pixels == Bytes{5, 6, 7});
}

TEST_CASE("texts and profiles are passed over, however long, many and damaged") {
  const std::string text(2'000'000, 'x');
  PngOptions options{.width = 1, .height = 1};
  options.more = [&](png_structp png, png_infop info) {
    for (int compression : {PNG_TEXT_COMPRESSION_NONE, PNG_TEXT_COMPRESSION_zTXt}) {
      png_text entry{};
      entry.compression = compression;
      entry.key = const_cast<char*>("Comment");
      entry.text = const_cast<char*>(text.c_str());
      entry.text_length = text.size();
      for (int i = 0; i < 3; ++i) png_set_text(png, info, &entry, 1);
    }
  };
  Bytes png = encode_png(options, Bytes{10, 20, 30});
  CHECK(png.size() > 3 * text.size());
  CHECK(decode_image(png, kName).pixels == Bytes{10, 20, 30});
  png[100'000] ^= 1;  // the chunk's checksum is then wrong
  CHECK(decode_image(png, kName).pixels == Bytes{10, 20, 30});
}

TEST_CASE("what is no image is refused by name") {
  CHECK(error_of({}) == "decode_image: 'some/where.img' is empty (0 bytes)");
  CHECK(error_of(Bytes{'G', 'I', 'F', '8', '9', 'a', 0, 0, 0}) ==
        "decode_image: 'some/where.img' is neither JPEG nor PNG: it starts with the bytes "
        "47 49 46 38 39 61 00 00");
  CHECK(contains(error_of(Bytes{0xFF}), "neither JPEG nor PNG"));
  CHECK(contains(error_of(Bytes{0xFF, 0xD8, 0xFF}), kName));
  CHECK(contains(error_of(Bytes{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'}), kName));
}

TEST_CASE("a claimed size is refused before memory is asked for") {
  // 65500 is libjpeg's own limit; at 3 bytes a pixel this would be 12.9 GB.
  CHECK(error_of(jpeg_claiming(65500, 65500)) ==
        "decode_image: 'some/where.img' claims to be a JPEG of 65500 x 65500 = 4290250000 pixels, "
        "more than the limit of 100000000");
  CHECK(error_of(png_claiming(2'000'000'000, 2'000'000'000)) ==
        "decode_image: 'some/where.img' claims to be a PNG of 2000000000 x 2000000000 = "
        "4000000000000000000 pixels, more than the limit of 100000000");
  CHECK(error_of(jpeg_claiming(65535, 65535)) != "");
  CHECK(error_of(jpeg_claiming(0, 10)) != "");
  CHECK(error_of(png_claiming(0, 10)) != "");

  const int64_t pixels = 21 * 13;
  for (const Bytes& bytes : {small_jpeg(), small_png()}) {
    CHECK(error_of(bytes, {.max_pixels = pixels}) == "");
    CHECK(contains(error_of(bytes, {.max_pixels = pixels - 1}), "21 x 13 = 273 pixels"));
    // Also where the reduced image would be small.
    CHECK(error_of(bytes, {.target = 1, .max_pixels = pixels - 1}) != "");
  }
}

TEST_CASE("a file cut at any length is an error that names it") {
  JpegOptions restarts{.width = 21, .height = 13, .restart_interval = 1};
  for (const Bytes& bytes : {small_jpeg(), small_jpeg({.progressive = true}), small_jpeg(restarts),
                             small_png(), small_png(21, 13, true)}) {
    REQUIRE(error_of(bytes) == "");
    const bool is_png = bytes[0] == 0x89;
    for (size_t length = 0; length < bytes.size() - (is_png ? kAfterPixels : 0); ++length) {
      CAPTURE(length);
      CHECK(contains(error_of(std::span(bytes).first(length)), kName));
    }
  }
  Bytes jpeg = small_jpeg();
  CHECK(contains(error_of(std::span(jpeg).first(jpeg.size() - 20)), "cut short"));
}

TEST_CASE("a PNG that ends after its pixels is an image, and noted") {
  for (bool interlaced : {false, true}) {
    const Bytes bytes = small_png(21, 13, interlaced);
    for (size_t length = bytes.size() - kAfterPixels; length <= bytes.size(); ++length) {
      CAPTURE(length);
      std::vector<std::string> notes;
      const DecodeOptions options{
          .note = [&](const std::string& fault) { notes.push_back(fault); }};
      CHECK(decode_image(std::span(bytes).first(length), kName, options).pixels ==
            smooth_picture(21, 13));
      CHECK(notes.size() == (length < bytes.size() ? 1 : 0));
      if (!notes.empty())
        CHECK(notes[0] == "PNG 'some/where.img' ends after its pixels, without an end mark");
    }
    // Another end than none is damage. Newer versions of libpng do not look at the end's checksum.
    Bytes damaged = bytes, checksum = bytes;
    damaged[bytes.size() - 13] ^= 0x55;
    checksum.back() ^= 0x55;
    CHECK(contains(error_of(damaged), kName));
    if (const std::string error = error_of(checksum); error.empty())
      CHECK(decode_image(checksum, kName).pixels == smooth_picture(21, 13));
    else
      CHECK(contains(error, kName));
  }
}

TEST_CASE("any damaged byte gives an image or an error, never a crash") {
  DecodeOptions options{.max_pixels = 1 << 16};
  for (const Bytes& bytes : {small_jpeg(), small_jpeg({.progressive = true}), small_png()}) {
    for (size_t at = 0; at < bytes.size(); ++at)
      for (uint8_t flip : {0x01, 0x80, 0xFF}) {
        Bytes damaged = bytes;
        damaged[at] ^= flip;
        std::string error = error_of(damaged, options);
        CHECK((error.empty() || contains(error, kName)));
      }
  }
}

TEST_CASE("damaged pixel data is an error, stray bytes before the end are not") {
  Bytes bytes = small_jpeg({.width = 64, .height = 64, .quality = 90});
  Bytes damaged = bytes;
  std::fill(damaged.end() - 60, damaged.end() - 30, 0xFE);
  CHECK(contains(error_of(damaged), "Corrupt JPEG data"));

  Bytes padded = bytes;
  padded.insert(padded.end() - 2, 6, 0);
  CHECK(decode_image(padded, kName) == decode_image(bytes, kName));
  // And so is anything after the end.
  Bytes longer = bytes;
  longer.insert(longer.end(), 100, 0xAA);
  CHECK(decode_image(longer, kName) == decode_image(bytes, kName));
}

TEST_CASE("a JPEG that repeats its scans without end is refused") {
  // One scan of means, one of all else; the second is then sent over and over.
  std::vector<jpeg_scan_info> scans{{1, {0}, 0, 0, 0, 0}, {1, {0}, 1, 63, 0, 0}};
  Bytes grey(64, 100);
  Bytes once = encode_jpeg({.width = 8, .height = 8, .in = JCS_GRAYSCALE, .scans = scans}, grey);
  REQUIRE(error_of(once) == "");
  const uint8_t marker[] = {0xFF, 0xDA};
  auto scan = std::ranges::find_end(once, marker).begin();
  Bytes last(scan, once.end() - 2), many(once.begin(), once.end() - 2);
  for (int i = 0; i < 600; ++i) many.insert(many.end(), last.begin(), last.end());
  many.insert(many.end(), {0xFF, 0xD9});
  CHECK(contains(error_of(many), "more than 500 scans"));
}
