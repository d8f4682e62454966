// Sweeps over the pixels of one image [P,C] at a time, for kernels that want numbers of a channel
// of an image, and then the image once more: while it is still in a cache. Images go to threads;
// where there are fewer of them, parts of each. Results do not depend on which. For sums over all
// images there is channel_sums.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/base/range.h"
#include "brim/ops/cpu/channel_sums.h"
#include "brim/ops/cpu/few_rows.h"

namespace brim::cpu {

struct ImageSize {
  int64_t pixels, channels;
};

/// Calls `body(range)` for stretches of images that a thread works on together: so many as its
/// share of the caches holds, but not more than repay reading what they share.
template <class Body>
void for_image_groups(int64_t images, int64_t bytes_of_image, const Body& body) {
  constexpr int64_t kMost = 16, kFew = 4, kCacheBytes = int64_t{4} << 20, kGrainBytes = 65536;
  int64_t together =
      std::clamp<int64_t>(kCacheBytes / std::max<int64_t>(bytes_of_image, 1), 1, kMost);
  if (together > kFew) together -= together % kFew;  // as products take them
  auto groups = [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += together) body(Range{begin, std::min(begin + together, end)});
  };
  // A parallel loop within one runs on its thread alone: it is the images that are shared out, or
  // what `body` shares out of them.
  if (images < num_threads())
    groups(0, images);
  else
    parallel_for(images, kGrainBytes / std::max<int64_t>(bytes_of_image, 1) + 1, groups);
}

inline constexpr int64_t kImageGrain = 16384;  // elements that repay a second thread

/// Sums of up to `kWidth` channels from `begin` on: in T over a few pixels, then in double.
template <class T, class Add>
class ImageSums {
 public:
  static constexpr int64_t kWidth = 1024;

  ImageSums(const ImageSize& image, Range channels, const Add& add)
      : begin_(channels.begin), width_(channels.end - channels.begin) {
    std::fill_n(few_, width_, T(0));
    std::fill_n(total_, width_, 0.0);
    const int64_t row = image.channels, elements = image.pixels * row;
    auto flush = [&] { this->flush(); };
    auto rows = [&]<int kRows>(std::integral_constant<int, kRows>, int64_t at, int64_t) {
      for_lanes_and_halves<T>(width_, [&]<class V>(int64_t c) {
        V sum = load<V>(few_ + c);
        for (int k = 0; k < kRows; ++k) sum = add(sum, at + k * row + begin_ + c);
        store(few_ + c, sum);
      });
    };
    // As for rows of ChannelRows: those that push each other out of the nearest cache are two.
    if (row * static_cast<int64_t>(sizeof(T)) % 4096 == 0)
      for_row_groups<2>(0, elements, row, rows, flush);
    else
      for_row_groups<4>(0, elements, row, rows, flush);
  }
  double operator[](int64_t i) const { return total_[i]; }

 private:
  void flush() {
    for (int64_t c = 0; c < width_; ++c) total_[c] += static_cast<double>(few_[c]);
    std::fill_n(few_, width_, T(0));
  }

  int64_t begin_, width_;
  alignas(64) T few_[kWidth];
  alignas(64) double total_[kWidth];
};

/// Calls `finish(c, sum)` for each channel: `add(sum, i)` has added to it what there is of its
/// elements, pixel by pixel. `add` takes vectors of elements from the i-th of the image on.
template <class T, class Add, class Finish>
void channel_sums(const ImageSize& image, const Add& add, const Finish& finish) {
  using Sums = ImageSums<T, Add>;
  constexpr int64_t kUnit = 16;
  parallel_for(ceil_div(image.channels, kUnit), kImageGrain / (kUnit * image.pixels) + 1,
               [&](int64_t first, int64_t last) {
                 const int64_t end = std::min(last * kUnit, image.channels);
                 for (int64_t c = first * kUnit; c < end; c += Sums::kWidth) {
                   const Range channels{c, std::min(c + Sums::kWidth, end)};
                   const Sums sums(image, channels, add);
                   for (int64_t i = c; i < channels.end; ++i) finish(i, sums[i - c]);
                 }
               });
}

/// to[i] = value(i, c) for each element of the image and its channel, vectors of them, of floats
/// where T is a half; past the caches where `streams`. Each is read before it is written.
template <class T, bool kStream, class Value>
void map_pixels(const ImageSize& image, T* to, const Value& value) {
  parallel_for(image.pixels, kImageGrain / std::max<int64_t>(image.channels, 1) + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t at = begin * image.channels; at < end * image.channels;
                      at += image.channels)
                   for_lanes_and_halves<Compute<T>>(image.channels, [&]<class V>(int64_t c) {
                     const V result = value.template operator()<V>(at + c, c);
                     if constexpr (kStream && is_vector<V>)
                       stream(to + at + c, result);
                     else
                       store(to + at + c, result);
                   });
                 if (kStream) stream_fence();
               });
}
template <class T, class Value>
void map_pixels(const ImageSize& image, bool streams, T* to, const Value& value) {
  if (streams)
    map_pixels<T, true>(image, to, value);
  else
    map_pixels<T, false>(image, to, value);
}

/// Can results of these images be stored past the caches, and should they?
template <class T>
bool worth_streaming(const View& images, const T* to) {
  return images.shape.back() % kLanes<Vector<Compute<T>>> == 0 &&
         worth_streaming(to, images.numel());
}

}  // namespace brim::cpu
