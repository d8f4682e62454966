#include "brim/data/resize.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
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

// Both passes sum a fixed number of whole numbers side by side, in vector registers.
constexpr size_t kBlock = 64;  // bytes of a row that the second pass sums at once
constexpr int kRows = 4;       // that the first pass takes at once

/// Two rows' pixels at the same place: red, green, blue and one unused of each.
typedef int32_t TwoPixels __attribute__((vector_size(32)));
/// And of kRows.
struct Column {
  TwoPixels upper, lower;
};

/// Reads a fourth byte of each pixel, into what is unused.
TwoPixels widened(const uint8_t* first, const uint8_t* second) {
  int32_t a, b;
  std::memcpy(&a, first, 4);
  std::memcpy(&b, second, 4);
  return reinterpret_cast<TwoPixels>(_mm256_cvtepu8_epi32(_mm_set_epi32(0, 0, b, a)));
}

/// `count` pixels of 3 bytes of each row, side by side.
void widen(const std::array<const uint8_t*, kRows>& rows, int count, Column* columns) {
  for (int x = 0; x < count - 1; ++x) {
    const ptrdiff_t at = ptrdiff_t{x} * 3;
    columns[x] = {widened(rows[0] + at, rows[1] + at), widened(rows[2] + at, rows[3] + at)};
  }
  uint8_t last[kRows][4] = {};  // behind the last pixel there may be nothing to read
  for (int i = 0; i < kRows; ++i) std::copy_n(rows[i] + ptrdiff_t{count - 1} * 3, 3, last[i]);
  columns[count - 1] = {widened(last[0], last[1]), widened(last[2], last[3])};
}

/// Sums as pixels of 3 bytes; overwrites a byte behind each.
void store(TwoPixels sums, uint8_t* first, uint8_t* second) {
  const auto whole = reinterpret_cast<__m256i>(sums >> kPrecision);
  // To 16 bits, and then to 8, where what is just past 255 becomes that.
  const __m128i words =
      _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
  const auto bytes = static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_packus_epi16(words, words)));
  const auto a = static_cast<uint32_t>(bytes), b = static_cast<uint32_t>(bytes >> 32);
  std::memcpy(first, &a, 4);
  std::memcpy(second, &b, 4);
}

/// kRows rows along x, to `width` pixels of 3 bytes in each of `out`, and a byte behind them.
void filter_columns(const Filter& filter, const Column* columns, int width,
                    const std::array<uint8_t*, kRows>& out) {
  for (int x = 0; x < width; ++x) {
    const Column* from = columns + filter.first[x];
    const int32_t* weights = filter.at(x);
    const int taps = filter.count[x];
    Column sums{TwoPixels{} + kHalf, TwoPixels{} + kHalf};
    for (int tap = 0; tap < taps; ++tap) {
      sums.upper += from[tap].upper * weights[tap];
      sums.lower += from[tap].lower * weights[tap];
    }
    const ptrdiff_t at = ptrdiff_t{x} * 3;
    store(sums.upper, out[0] + at, out[1] + at);
    store(sums.lower, out[2] + at, out[3] + at);
  }
}

/// The first pass: `source` of the image along x, to rows of `width` pixels, `stride` bytes apart.
void resize_columns(const ImageView& image, Box source, const Filter& filter, int width,
                    size_t stride, uint8_t* out) {
  std::vector<Column> columns(static_cast<size_t>(source.width));
  for (int y = 0; y < source.height; y += kRows) {
    std::array<const uint8_t*, kRows> from;
    std::array<uint8_t*, kRows> to;
    for (int i = 0; i < kRows; ++i) {
      const int row = std::min(y + i, source.height - 1);  // the last one again, where none is left
      from[i] = image.pixel(source.x, source.y + row);
      to[i] = out + stride * static_cast<size_t>(row);
    }
    widen(from, source.width, columns.data());
    filter_columns(filter, columns.data(), width, to);
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

void check_boxes(const ImageView& image, Box crop, int width, int height, Box window) {
  expect<ValueError>(inside(crop, image.width, image.height), "resize",
                     "expected a crop inside the image of {} x {}, got {} x {} at ({}, {})",
                     image.width, image.height, crop.width, crop.height, crop.x, crop.y);
  expect<ValueError>(width > 0 && height > 0, "resize", "expected sides of at least 1, got {} x {}",
                     width, height);
  expect<ValueError>(inside(window, width, height), "resize",
                     "expected a window inside the result of {} x {}, got {} x {} at ({}, {})",
                     width, height, window.width, window.height, window.x, window.y);
}

void copy_box(const ImageView& image, Box box, uint8_t* out) {
  const size_t bytes = static_cast<size_t>(box.width) * 3;
  for (int y = 0; y < box.height; ++y)
    std::memcpy(out + y * bytes, image.pixel(box.x, box.y + y), bytes);
}

/// The pixels [first, end) of an axis that a filter reads.
struct Reach {
  int first, end;
};

Reach reach_of(const Filter& filter) {
  return {filter.first.front(), filter.first.back() + filter.count.back()};
}

/// Its pixels are counted from the first that it reads.
void rebase(Filter& filter) {
  const int begin = filter.first.front();
  for (int& first : filter.first) first -= begin;
}

bool same_size(Box crop, int width, int height) {
  return width == crop.width && height == crop.height;
}

void check_view(const ImageView& image, Box source) {
  const Box seen{source.x - image.box.x, source.y - image.box.y, source.width, source.height};
  expect<ValueError>(inside(seen, image.box.width, image.box.height), "resize",
                     "expected the pixels {} x {} at ({}, {}), got a part of {} x {} at ({}, {})",
                     source.width, source.height, source.x, source.y, image.box.width,
                     image.box.height, image.box.x, image.box.y);
}

}  // namespace

Box resize_source(Box crop, int width, int height, Box window) {
  if (same_size(crop, width, height))
    return {crop.x + window.x, crop.y + window.y, window.width, window.height};
  // The first and the last pixel of each axis reach farthest.
  auto reach = [](int in, int out, int begin, int count) {
    const Filter first = triangle_filter(in, out, begin, begin + 1),
                 last = triangle_filter(in, out, begin + count - 1, begin + count);
    return Reach{reach_of(first).first, reach_of(last).end};
  };
  const Reach columns = reach(crop.width, width, window.x, window.width),
              rows = reach(crop.height, height, window.y, window.height);
  return {crop.x + columns.first, crop.y + rows.first, columns.end - columns.first,
          rows.end - rows.first};
}

void resize_into(const ImageView& image, Box crop, int width, int height, Box window,
                 uint8_t* out) {
  check_boxes(image, crop, width, height, window);
  const Box source = resize_source(crop, width, height, window);
  check_view(image, source);
  if (same_size(crop, width, height)) return copy_box(image, source, out);

  Filter columns = triangle_filter(crop.width, width, window.x, window.x + window.width);
  Filter rows = triangle_filter(crop.height, height, window.y, window.y + window.height);
  // Only what the window needs goes through the first pass.
  rebase(columns), rebase(rows);
  const size_t bytes = static_cast<size_t>(window.width) * 3;
  const size_t stride = (bytes + 1 + kBlock - 1) / kBlock * kBlock;
  std::vector<uint8_t> between(stride * static_cast<size_t>(source.height));
  resize_columns(image, source, columns, window.width, stride, between.data());
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
