// What weight gradients that are summed over pixels of two images at a time share: rows of both,
// read as pairs of their elements, one image's in the lower half, and blocks of such images, which
// are copied and then multiplied.
#pragma once

#include "brim/core/half.h"
#include "brim/ops/cpu/bfloat16_pairs.h"

#ifdef __AVX512BW__

#include <algorithm>
#include <array>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"

namespace brim::cpu {

/// One of several equal shares of some work.
struct Share {
  int64_t index, count;
  int64_t begin(int64_t size) const { return size * index / count; }
  int64_t end(int64_t size) const { return size * (index + 1) / count; }
};

/// The images of a batch in twos, so many of these at a time.
struct PairBlocks {
  int64_t pairs = 0;  ///< of all images
  int64_t size = 0;   ///< pairs of a block; the last may have fewer
  int64_t count = 0;  ///< of blocks

  PairBlocks() = default;
  /// `numbers`: of a pair of images, which are copied. A block has 3 MiB of them.
  PairBlocks(int64_t images, int64_t numbers) : pairs(ceil_div(images, 2)) {
    constexpr int64_t kNumbers = 768 << 10;
    size = ceil_div(pairs, ceil_div(pairs, std::clamp<int64_t>(kNumbers / numbers, 1, pairs)));
    count = ceil_div(pairs, size);
  }

  struct Block {
    int64_t begin, count;
  };
  Block block(int64_t i) const { return {i * size, std::min(size, pairs - i * size)}; }

  /// Where blocks are copied to by turns: the second is a place of its own where there is a second
  /// block.
  template <class Copies, class Make>
  std::array<Copies, 2> places(const Make& make) const {
    const Copies first = make();
    return {first, count == 1 ? first : make()};
  }

  /// All threads work on one block, each on some of the sums, having copied its share of the next
  /// block: so they wait for each other once for each. Calls `copy(block, place, share)` and
  /// `multiply(block, place, share, adds)`, which adds to what earlier blocks left.
  template <class Copies, class Copy, class Multiply>
  void each(const std::array<Copies, 2>& places, const Copy& copy, const Multiply& multiply) const {
    const int64_t threads = num_threads();
    for (int64_t i = -1; i < count; ++i)
      parallel_pieces(threads, threads, [&](int64_t thread, int64_t, int64_t) {
        const Share share{thread, threads};
        if (i + 1 < count) copy(block(i + 1), places[(i + 1) % 2], share);
        if (i >= 0) multiply(block(i), places[i % 2], share, i > 0);
      });
  }
};

/// The same elements of two images. Where there is no such image they are zeros.
struct ImageRows {
  const BFloat16 *a = nullptr, *b = nullptr;
  ImageRows at(int64_t i) const { return {a == nullptr ? a : a + i, b == nullptr ? b : b + i}; }
};

/// Row `row` of images 2 * pair and 2 * pair + 1 of [images,height,length].
inline ImageRows image_rows(const BFloat16* from, int64_t images, int64_t pair, int64_t height,
                            int64_t row, int64_t length) {
  const BFloat16* a = from + (2 * pair * height + row) * length;
  return {a, 2 * pair + 1 < images ? a + height * length : nullptr};
}

/// Up to 32 elements of two rows; those beyond `count` are zeros.
class PairsOfRows {
 public:
  static constexpr int64_t kWidth = kLanes<Vector<float>>;

  PairsOfRows(const ImageRows& rows, int64_t count) {
    const __mmask32 mask = first_of_32(count);
    // Where nothing is loaded an address that is none takes a hundred times as long.
    a_ = rows.a == nullptr ? __m512i{} : _mm512_maskz_loadu_epi16(mask, rows.a);
    b_ = rows.b == nullptr ? __m512i{} : _mm512_maskz_loadu_epi16(mask, rows.b);
  }
  /// 16 of them each.
  Pairs first() const { return first_pairs(a_, b_); }
  Pairs last() const { return last_pairs(a_, b_); }

 private:
  __m512i a_, b_;
};

/// Calls `put(i, pairs)` for the elements of [0, count) of two rows, 16 of them from element i on.
template <class Put>
inline void for_pairs(const ImageRows& rows, int64_t count, const Put& put) {
  constexpr int64_t kWidth = PairsOfRows::kWidth, kAhead = 2048;  // elements, in memory's next page
  for (int64_t i = 0; i < count; i += 2 * kWidth) {
    const ImageRows here = rows.at(i);
    __builtin_prefetch(here.a + kAhead);
    if (here.b != nullptr) __builtin_prefetch(here.b + kAhead);
    const PairsOfRows pairs(here, count - i);
    put(i, pairs.first());
    if (count - i > kWidth) put(i + kWidth, pairs.last());
  }
}

/// to[i] = sum[i], or += sum[i], of the first `count` of 16.
inline void put_sums(float* to, int64_t count, Vector<float> sum, bool adds) {
  const auto mask =
      static_cast<__mmask16>((1u << std::min<int64_t>(kLanes<Vector<float>>, count)) - 1);
  if (adds) sum += _mm512_maskz_loadu_ps(mask, to);
  _mm512_mask_storeu_ps(to, mask, sum);
}

}  // namespace brim::cpu

#endif
