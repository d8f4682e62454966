// Proves that resizing is the antialiased triangle filter: against a direct double-precision sum,
// and to the byte against Pillow.
#include "brim/data/resize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "brim/base/error.h"
#include "brim/base/random.h"

using namespace brim;
using namespace brim::data;

namespace {

Image noise(int width, int height) {
  Image image(width, height);
  RandomKey key{7};
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<uint8_t>(random_bits(key, 0, i) >> 24);
  return image;
}

/// The picture that the Pillow figures below were made from.
Image pattern(int width, int height) {
  Image image(width, height);
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<uint8_t>((i * i * 7 + i * 13) >> 3);
  return image;
}

uint64_t fingerprint(const Image& image) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (uint8_t byte : image.pixels) hash = (hash ^ byte) * 0x100000001B3ull;
  return hash;
}

/// Weights of all source pixels for one output pixel, normalised.
std::vector<double> weights(int in, int out, int at) {
  const double scale = double(in) / out, support = std::max(scale, 1.0),
               center = (at + 0.5) * scale;
  std::vector<double> result;
  double sum = 0;
  for (int i = 0; i < in; ++i) {
    result.push_back(std::max(0.0, 1 - std::abs((i + 0.5 - center) / support)));
    sum += result.back();
  }
  for (double& weight : result) weight /= sum;
  return result;
}

double reference(const Image& image, int width, int height, int x, int y, int channel) {
  auto across = weights(image.width, width, x), down = weights(image.height, height, y);
  double sum = 0;
  for (int row = 0; row < image.height; ++row)
    for (int column = 0; column < image.width; ++column)
      sum += down[row] * across[column] * image.row(row)[column * 3 + channel];
  return sum;
}

Image cut(const Image& image, Box box) {
  Image result(box.width, box.height);
  for (int y = 0; y < box.height; ++y)
    std::copy_n(image.row(box.y + y) + box.x * 3, box.width * 3, result.row(y));
  return result;
}

}  // namespace

TEST_CASE("resizing is the normalised triangle filter") {
  Image image = noise(19, 14);
  struct Size {
    int width, height;
  };
  for (auto [width, height] : {Size{7, 5}, {19, 5}, {40, 14}, {31, 33}, {1, 1}, {18, 15}}) {
    CAPTURE(width);
    CAPTURE(height);
    Image result = resize(image, width, height);
    double worst = 0;
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        for (int channel = 0; channel < 3; ++channel)
          worst = std::max(worst, std::abs(result.row(y)[x * 3 + channel] -
                                           reference(image, width, height, x, y, channel)));
    // Half a step for rounding after each of the two passes; the weights' 2^-23 each adds less
    // than 40 * 255 * 2^-23.
    CHECK(worst <= 1.002);
  }
}

TEST_CASE("the bytes are Pillow's") {
  // PIL.Image.resize(size, BILINEAR) of `pattern`, and with the crop cut out first; Pillow 13.0.
  Image image = pattern(50, 37);
  CHECK(fingerprint(resize(image, 224, 224)) == 0xB1455E3F53865ACCull);
  CHECK(fingerprint(resize(image, 16, 11)) == 0x747DB77CE5D272E6ull);
  CHECK(fingerprint(resize(image, 50, 20)) == 0x1EF406BC064909FEull);
  CHECK(fingerprint(resize(image, {5, 9, 31, 20}, 24, 24)) == 0x92BEE1C1562A9FD6ull);
}

TEST_CASE("the same size is the same image, and a flat image stays flat") {
  Image image = noise(9, 6);
  CHECK(resize(image, 9, 6) == image);
  Image flat(13, 8);
  for (uint8_t value : {0, 1, 128, 255}) {
    std::ranges::fill(flat.pixels, value);
    for (uint8_t byte : resize(flat, 30, 3).pixels) CHECK(byte == value);
  }
}

TEST_CASE("a crop is resized as if it had been cut out") {
  Image image = noise(30, 25);
  Box box{4, 7, 17, 12};
  CHECK(resize(image, box, 8, 8) == resize(cut(image, box), 8, 8));
  CHECK(resize(image, box, 17, 12) == cut(image, box));
}

TEST_CASE("a window is that part of the whole result") {
  Image image = noise(30, 25);
  Box crop{2, 3, 25, 20}, window{5, 2, 6, 9};
  Image whole = resize(image, crop, 13, 12), part(window.width, window.height);
  resize_into(image, crop, 13, 12, window, part.pixels.data());
  CHECK(part == cut(whole, window));
  resize_into(image, crop, 25, 20, window, part.pixels.data());
  CHECK(part == cut(image, {7, 5, 6, 9}));
}

TEST_CASE("the pixels of its source are enough for a window") {
  const Image image = noise(30, 25);
  const Box crop{2, 3, 25, 20};
  for (auto [width, height] : {std::pair{13, 12}, {60, 41}, {25, 20}, {25, 7}})
    for (Box window : {Box{5, 2, 6, 5}, {0, 0, 1, 1}, {width - 1, height - 1, 1, 1}}) {
      CAPTURE(width);
      CAPTURE(window.x);
      const Box source = resize_source(crop, width, height, window);
      Image expected(window.width, window.height), result = expected;
      resize_into(image, crop, width, height, window, expected.pixels.data());
      const ImagePart part{cut(image, source), source, image.width, image.height};
      resize_into(part, crop, width, height, window, result.pixels.data());
      CHECK(result == expected);
    }
  // One column fewer is not.
  const Box whole{0, 0, 13, 12}, source = resize_source(crop, 13, 12, whole);
  CHECK(source == crop);
  const Box less{source.x, source.y, source.width - 1, source.height};
  std::vector<uint8_t> out(13 * 12 * 3);
  CHECK_THROWS_WITH_AS(
      resize_into(ImagePart{cut(image, less), less, 30, 25}, crop, 13, 12, whole, out.data()),
      "resize: expected the pixels 25 x 20 at (2, 3), got a part of 24 x 20 at (2, 3)", ValueError);
}

TEST_CASE("boxes outside the image are refused") {
  Image image(10, 8);
  for (Box box : {Box{-1, 0, 5, 5},
                  {0, -1, 5, 5},
                  {0, 0, 11, 5},
                  {6, 0, 5, 5},
                  {0, 4, 5, 5},
                  {0, 0, 0, 5},
                  {2'000'000'000, 0, 2'000'000'000, 5}})
    CHECK_THROWS_AS(resize(image, box, 4, 4), ValueError);
  CHECK_THROWS_AS(resize(image, 0, 4), ValueError);
  CHECK_THROWS_AS(resize(image, 4, -1), ValueError);
  CHECK_THROWS_AS(resize(Image(), 4, 4), ValueError);
}
