#include "brim/data/random_erasing.h"

#include <cmath>

#include "brim/base/error.h"

namespace brim::data {

// Written so that a NaN fails.
void check_random_erasing(const RandomErasing& erasing) {
  constexpr const char* kTag = "random_erasing";
  expect<ValueError>(erasing.probability >= 0 && erasing.probability <= 1, kTag,
                     "expected a probability between 0 and 1, got {}", erasing.probability);
  expect<ValueError>(
      erasing.min_area > 0 && erasing.min_area <= erasing.max_area && erasing.max_area <= 1, kTag,
      "expected 0 < min_area <= max_area <= 1, got {} and {}", erasing.min_area, erasing.max_area);
  expect<ValueError>(
      erasing.min_ratio > 0 && erasing.min_ratio <= erasing.max_ratio && erasing.max_ratio < 1e4f,
      kTag, "expected 0 < min_ratio <= max_ratio < 10000, got {} and {}", erasing.min_ratio,
      erasing.max_ratio);
}

std::optional<Box> random_erasing_box(int size, const RandomErasing& erasing,
                                      RandomStream& random) {
  if (random.uniform() >= erasing.probability) return {};
  const double area = static_cast<double>(size) * size;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double part = area * random.uniform(erasing.min_area, erasing.max_area);
    const double ratio =
        std::exp(random.uniform(std::log(erasing.min_ratio), std::log(erasing.max_ratio)));
    const int64_t height = std::llround(std::sqrt(part * ratio));
    const int64_t width = std::llround(std::sqrt(part / ratio));
    if (height < 1 || width < 1 || height >= size || width >= size) continue;
    Box box{0, 0, static_cast<int>(width), static_cast<int>(height)};
    box.y = static_cast<int>(random.below(static_cast<uint64_t>(size - box.height + 1)));
    box.x = static_cast<int>(random.below(static_cast<uint64_t>(size - box.width + 1)));
    return box;
  }
  return {};
}

void random_erasing(int size, uint8_t* rgb, const RandomErasing& erasing, RandomStream& random) {
  if (erasing.probability == 0) return;
  const std::optional<Box> box = random_erasing_box(size, erasing, random);
  if (!box) return;
  for (int y = 0; y < box->height; ++y) {
    uint8_t* row = rgb + (static_cast<size_t>(box->y + y) * size + box->x) * 3;
    for (int i = 0; i < 3 * box->width; ++i)
      row[i] = erasing.fill == RandomErasing::Fill::noise
                   ? static_cast<uint8_t>(random.bits() >> 24)
                   : uint8_t{0};
  }
}

}  // namespace brim::data
