#include "brim/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "brim/base/error.h"
#include "brim/data/resize.h"

namespace brim::data {
namespace {

constexpr int kMaxSize = 65'535;  // a JPEG's limit, and far from overflowing size * size * 3
constexpr int kMaxRatio = 1024;

/// torchvision's fallback: as much of the centre as a ratio in bounds leaves.
Box centered_box(int all_width, int all_height, const Augment& augment) {
  float ratio = static_cast<float>(all_width) / static_cast<float>(all_height);
  int width = all_width, height = all_height;
  if (ratio < augment.min_ratio) height = static_cast<int>(std::lround(width / augment.min_ratio));
  if (ratio > augment.max_ratio) width = static_cast<int>(std::lround(height * augment.max_ratio));
  width = std::clamp(width, 1, all_width);
  height = std::clamp(height, 1, all_height);
  return {(all_width - width) / 2, (all_height - height) / 2, width, height};
}

/// The pixel that stands at place i of a padded row of `size`; -1 for a black one.
int padded_index(int i, int size, Augment::PaddingMode mode) {
  if (i >= 0 && i < size) return i;
  if (mode == Augment::PaddingMode::black) return -1;
  return i < 0 ? -i : 2 * (size - 1) - i;
}

/// `crop` is resized to width x height, of which `window` is the result.
struct Centre {
  Box crop;
  int width, height;
  Box window;
};

Centre centre_of(int width, int height, int size, int shorter) {
  expect<ValueError>(size > 0 && shorter >= size && shorter <= kMaxSize, "center_crop",
                     "expected a shorter side between the size {} and {}, got {}", size, kMaxSize,
                     shorter);
  const int side = std::min(width, height);
  expect<ValueError>(side > 0, "center_crop", "expected an image, got {} x {}", width, height);
  // Of an image thinner than any photograph only the middle can be seen; the rest would only let
  // the numbers below overflow.
  Box crop{0, 0, static_cast<int>(std::min<int64_t>(width, int64_t{side} * kMaxRatio)),
           static_cast<int>(std::min<int64_t>(height, int64_t{side} * kMaxRatio))};
  crop.x = (width - crop.width) / 2;
  crop.y = (height - crop.height) / 2;
  // Whole-number division, as torchvision's Resize.
  const int across = static_cast<int>(int64_t{shorter} * crop.width / side);
  const int down = static_cast<int>(int64_t{shorter} * crop.height / side);
  return {crop, across, down, {(across - size) / 2, (down - size) / 2, size, size}};
}

void check_padding(const Augment& augment, int size) {
  expect<ValueError>(augment.padding_mode == Augment::PaddingMode::black || augment.padding < size,
                     "augment", "expected reflected padding below the size {}, got {}", size,
                     augment.padding);
}

}  // namespace

void check_augment(const Augment& augment, int size) {
  expect<ValueError>(size >= 1 && size <= kMaxSize, "augment",
                     "expected a size between 1 and {} pixels, got {}", kMaxSize, size);
  expect<ValueError>(augment.resize == 0 || (augment.resize >= size && augment.resize <= kMaxSize),
                     "augment", "expected resize to be 0 or from the size {} to {}, got {}", size,
                     kMaxSize, augment.resize);
  expect<ValueError>(augment.padding >= 0 && augment.padding <= kMaxSize, "augment",
                     "expected padding between 0 and {}, got {}", kMaxSize, augment.padding);
  if (augment.kind == Augment::Kind::padded_crop) check_padding(augment, size);
  // Written so that a NaN fails.
  expect<ValueError>(
      augment.min_area > 0 && augment.min_area <= augment.max_area && augment.max_area <= 1,
      "augment", "expected 0 < min_area <= max_area <= 1, got {} and {}", augment.min_area,
      augment.max_area);
  expect<ValueError>(
      augment.min_ratio > 0 && augment.min_ratio <= augment.max_ratio && augment.max_ratio < 1e4f,
      "augment", "expected 0 < min_ratio <= max_ratio < 10000, got {} and {}", augment.min_ratio,
      augment.max_ratio);
  check_color_jitter(augment.color_jitter);
  check_random_erasing(augment.random_erasing);
}

int decode_target(int size, const Augment& augment) {
  switch (augment.kind) {
    case Augment::Kind::none:
      return std::max(size, augment.resize);
    case Augment::Kind::padded_crop:
      return size;
    case Augment::Kind::random_resized_crop:
      // The smallest part has this fraction of each side, and should still have `size` pixels.
      return static_cast<int>(std::ceil(std::min(size / std::sqrt(augment.min_area), 1e9f)));
  }
  check(false, "a known kind of augmentation");
  return 0;
}

Box random_resized_box(int width, int height, const Augment& augment, RandomStream& random) {
  const double area = static_cast<double>(width) * height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    double part = area * random.uniform(augment.min_area, augment.max_area);
    double ratio =
        std::exp(random.uniform(std::log(augment.min_ratio), std::log(augment.max_ratio)));
    int64_t across = std::llround(std::sqrt(part * ratio));
    int64_t down = std::llround(std::sqrt(part / ratio));
    if (across < 1 || down < 1 || across > width || down > height) continue;
    Box box{0, 0, static_cast<int>(across), static_cast<int>(down)};
    box.y = static_cast<int>(random.below(static_cast<uint64_t>(height - box.height + 1)));
    box.x = static_cast<int>(random.below(static_cast<uint64_t>(width - box.width + 1)));
    return box;
  }
  return centered_box(width, height, augment);
}

void random_resized_crop(const ImageView& image, int size, const Augment& augment,
                         RandomStream& random, uint8_t* out) {
  Box box = random_resized_box(image.width, image.height, augment, random);
  resize_into(image, box, size, size, {0, 0, size, size}, out);
}

void center_crop(const ImageView& image, int size, int shorter, uint8_t* out) {
  const Centre centre = centre_of(image.width, image.height, size, shorter);
  resize_into(image, centre.crop, centre.width, centre.height, centre.window, out);
}

void padded_crop(const ImageView& image, int size, const Augment& augment, RandomStream& random,
                 uint8_t* out) {
  check_padding(augment, size);
  const int padding = augment.padding;
  const auto places = static_cast<uint64_t>(padding) * 2 + 1;
  // Where the part starts in the unpadded square: -padding .. padding.
  const int top = static_cast<int>(random.below(places)) - padding;
  const int left = static_cast<int>(random.below(places)) - padding;

  const size_t row_bytes = static_cast<size_t>(size) * 3;
  std::vector<uint8_t> square(row_bytes * static_cast<size_t>(size));
  center_crop(image, size, size, square.data());
  std::memset(out, 0, square.size());
  for (int y = 0; y < size; ++y) {
    const int row = padded_index(top + y, size, augment.padding_mode);
    if (row < 0) continue;
    const uint8_t* from = square.data() + static_cast<size_t>(row) * row_bytes;
    uint8_t* to = out + static_cast<size_t>(y) * row_bytes;
    for (int x = 0; x < size; ++x, to += 3) {
      const int column = padded_index(left + x, size, augment.padding_mode);
      if (column >= 0) std::copy_n(from + static_cast<size_t>(column) * 3, 3, to);
    }
  }
}

void flip_horizontal(int size, uint8_t* pixels) {
  for (int y = 0; y < size; ++y) {
    uint8_t* left = pixels + static_cast<size_t>(y) * size * 3;
    uint8_t* right = left + static_cast<size_t>(size - 1) * 3;
    for (; left < right; left += 3, right -= 3) std::swap_ranges(left, left + 3, right);
  }
}

Box prepare_source(int width, int height, int size, const Augment& augment, RandomStream random) {
  if (augment.kind == Augment::Kind::random_resized_crop) {
    const Box box = random_resized_box(width, height, augment, random);
    return resize_source(box, size, size, {0, 0, size, size});
  }
  const int shorter = augment.kind == Augment::Kind::none ? std::max(size, augment.resize) : size;
  const Centre centre = centre_of(width, height, size, shorter);
  return resize_source(centre.crop, centre.width, centre.height, centre.window);
}

void prepare(const ImageView& image, int size, const Augment& augment, RandomStream random,
             uint8_t* out) {
  switch (augment.kind) {
    case Augment::Kind::none:
      center_crop(image, size, std::max(size, augment.resize), out);
      break;
    case Augment::Kind::padded_crop:
      padded_crop(image, size, augment, random, out);
      break;
    case Augment::Kind::random_resized_crop:
      random_resized_crop(image, size, augment, random, out);
      break;
  }
  if (augment.flip && random.bits() >> 31) flip_horizontal(size, out);
  color_jitter({out, static_cast<size_t>(size) * size * 3}, augment.color_jitter, random);
  random_erasing(size, out, augment.random_erasing, random);
}

}  // namespace brim::data
