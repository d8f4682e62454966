#include "brim/data/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "brim/base/error.h"

namespace brim::data {
namespace {

// 8 bits of a pixel and 2 to spare leave 22 of a 32-bit sum for the coefficients.
constexpr int kPrecision = 32 - 8 - 2;
constexpr int32_t kHalf = 1 << (kPrecision - 1);

/// The filter along one axis: output i of the window is the sum of source pixels
/// first[i] .. first[i] + count[i] - 1 times weights[i * stride ..].
struct Filter {
  int stride = 0;
  std::vector<int> first, count;
  std::vector<int32_t> weights;
  const int32_t* at(int i) const { return weights.data() + static_cast<size_t>(i) * stride; }
};

/// Pillow's precompute_coeffs for the triangle filter: `in` pixels become `out`, of which those
/// from `begin` to `end` are wanted.
Filter triangle_filter(int in, int out, int begin, int end) {
  const double scale = static_cast<double>(in) / out, support = std::max(scale, 1.0);
  Filter filter;
  filter.stride = static_cast<int>(std::ceil(support)) * 2 + 1;
  filter.weights.resize(static_cast<size_t>(filter.stride) * (end - begin));
  std::vector<double> taps(static_cast<size_t>(filter.stride));
  for (int i = begin; i < end; ++i) {
    double center = (i + 0.5) * scale, sum = 0;
    int low = std::max(static_cast<int>(center - support + 0.5), 0);
    int count = std::min(static_cast<int>(center + support + 0.5), in) - low;
    for (int tap = 0; tap < count; ++tap) {
      double distance = std::abs((low + tap - center + 0.5) / support);
      taps[tap] = std::max(1 - distance, 0.0);
      sum += taps[tap];
    }
    int32_t* weights = filter.weights.data() + static_cast<size_t>(i - begin) * filter.stride;
    for (int tap = 0; tap < count; ++tap)
      weights[tap] = static_cast<int32_t>(0.5 + taps[tap] / sum * (1 << kPrecision));
    filter.first.push_back(low);
    filter.count.push_back(count);
  }
  return filter;
}

// Rounding can carry a sum of full pixels just past 255; below 0 it cannot go.
uint8_t to_pixel(int32_t sum) { return static_cast<uint8_t>(std::min(sum >> kPrecision, 255)); }

// Both passes sum a fixed number of whole numbers side by side, in arrays that a compiler keeps in
// vector registers.
constexpr int kLanes = 4;      // a pixel: red, green, blue, and one unused
constexpr size_t kBlock = 64;  // bytes of a row that are summed at once

/// Pixels of 3 bytes to kLanes numbers each.
void widen(const uint8_t* pixels, int count, int32_t* lanes) {
  for (int x = 0; x < count; ++x, pixels += 3, lanes += kLanes)
    for (int channel = 0; channel < 3; ++channel) lanes[channel] = pixels[channel];
}

/// One widened row along x, to `width` pixels of 3 bytes.
void filter_columns(const Filter& filter, const int32_t* lanes, int width, uint8_t* out) {
  for (int x = 0; x < width; ++x, out += 3) {
    const int32_t* pixel = lanes + filter.first[x] * kLanes;
    const int32_t* weights = filter.at(x);
    int32_t sums[kLanes] = {kHalf, kHalf, kHalf, 0};
    for (int tap = 0; tap < filter.count[x]; ++tap, pixel += kLanes)
      for (int lane = 0; lane < kLanes; ++lane) sums[lane] += pixel[lane] * weights[tap];
    for (int channel = 0; channel < 3; ++channel) out[channel] = to_pixel(sums[channel]);
  }
}

/// Output row `y` from rows that are `stride` bytes apart, a multiple of kBlock; `bytes` of them
/// are wanted.
void filter_rows(const Filter& filter, int y, const uint8_t* rows, size_t stride, size_t bytes,
                 uint8_t* out) {
  rows += static_cast<size_t>(filter.first[y]) * stride;
  for (size_t at = 0; at < bytes; at += kBlock) {
    int32_t sums[kBlock];
    std::fill_n(sums, kBlock, kHalf);
    for (int tap = 0; tap < filter.count[y]; ++tap) {
      const int32_t weight = filter.at(y)[tap];
      const uint8_t* block = rows + static_cast<size_t>(tap) * stride + at;
      for (size_t i = 0; i < kBlock; ++i) sums[i] += block[i] * weight;
    }
    uint8_t result[kBlock];
    for (size_t i = 0; i < kBlock; ++i) result[i] = to_pixel(sums[i]);
    std::memcpy(out + at, result, std::min(kBlock, bytes - at));
  }
}

bool inside(Box box, int width, int height) {
  return box.x >= 0 && box.y >= 0 && box.width > 0 && box.height > 0 &&
         box.width <= width - box.x && box.height <= height - box.y;
}

void check_boxes(const Image& image, Box crop, int width, int height, Box window) {
  expect<ValueError>(inside(crop, image.width, image.height), "resize",
                     "expected a crop inside the image of {} x {}, got {} x {} at ({}, {})",
                     image.width, image.height, crop.width, crop.height, crop.x, crop.y);
  expect<ValueError>(width > 0 && height > 0, "resize", "expected sides of at least 1, got {} x {}",
                     width, height);
  expect<ValueError>(inside(window, width, height), "resize",
                     "expected a window inside the result of {} x {}, got {} x {} at ({}, {})",
                     width, height, window.width, window.height, window.x, window.y);
}

void copy_box(const Image& image, Box box, uint8_t* out) {
  const size_t bytes = static_cast<size_t>(box.width) * 3;
  for (int y = 0; y < box.height; ++y)
    std::memcpy(out + y * bytes, image.row(box.y + y) + box.x * 3, bytes);
}

}  // namespace

void resize_into(const Image& image, Box crop, int width, int height, Box window, uint8_t* out) {
  check_boxes(image, crop, width, height, window);
  if (width == crop.width && height == crop.height)
    return copy_box(image, {crop.x + window.x, crop.y + window.y, window.width, window.height},
                    out);

  Filter columns = triangle_filter(crop.width, width, window.x, window.x + window.width);
  Filter rows = triangle_filter(crop.height, height, window.y, window.y + window.height);

  // Only the source rows that the window needs go through the first pass.
  const int first = rows.first.front(), last = rows.first.back() + rows.count.back();
  for (int& row : rows.first) row -= first;
  const size_t bytes = static_cast<size_t>(window.width) * 3;
  const size_t stride = (bytes + kBlock - 1) / kBlock * kBlock;
  std::vector<uint8_t> between(stride * static_cast<size_t>(last - first));
  std::vector<int32_t> lanes(static_cast<size_t>(crop.width) * kLanes);
  for (int y = first; y < last; ++y) {
    widen(image.row(crop.y + y) + crop.x * 3, crop.width, lanes.data());
    filter_columns(columns, lanes.data(), window.width,
                   between.data() + stride * static_cast<size_t>(y - first));
  }
  for (int y = 0; y < window.height; ++y)
    filter_rows(rows, y, between.data(), stride, bytes, out + bytes * static_cast<size_t>(y));
}

Image resize(const Image& image, Box crop, int width, int height) {
  check_boxes(image, crop, width, height, {0, 0, width, height});
  Image result(width, height);
  resize_into(image, crop, width, height, {0, 0, width, height}, result.pixels.data());
  return result;
}

Image resize(const Image& image, int width, int height) {
  return resize(image, {0, 0, image.width, image.height}, width, height);
}

}  // namespace brim::data
