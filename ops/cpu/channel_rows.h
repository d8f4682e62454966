// Tensors [..., C] as rows of whole pixels, for kernels that keep something per channel in the
// nearest cache, with all channels inside, so that memory is read in one sweep. With few channels
// a row is several pixels, and what is kept per channel is repeated, so that inner loops are long.
// Sums per channel are in channel_sums.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/vector.h"

namespace brim::cpu {

struct ChannelRows {
  explicit ChannelRows(const View& x)
      : channels(x.shape.back()),
        elements(x.numel()),
        pixels(channels == 0 ? 0 : elements / channels),
        length(length_for(channels)),
        count((elements + length - 1) / length) {}

  int64_t channels, elements, pixels;
  int64_t length;  ///< of a row, in elements
  int64_t count;   ///< of rows; the last may be shorter

  /// Pieces to keep sums apart for, a function of the shape alone. Each has enough elements to
  /// repay a thread and enough pixels to repay its own sums.
  int64_t pieces() const {
    int64_t most = std::min({elements / 32768, pixels / 64, int64_t{64}});
    return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(most, 1))));
  }
  /// Room for a row of what is kept per channel, a line longer than it: rows that are read together
  /// then do not compete for the same lines of the cache.
  template <class T>
  T* take_row(ScratchCursor& scratch) const {
    return scratch.take<T>(length + 64 / static_cast<int64_t>(sizeof(T)));
  }
  /// Fills a row from its first pixel.
  template <class T>
  void repeat(T* row) const {
    for (int64_t i = channels; i < length && channels > 0; ++i) row[i] = row[i - channels];
  }
  /// First element of row i, or the end.
  int64_t start(int64_t i) const { return std::min(i * length, elements); }

 private:
  static constexpr int64_t kShortest = 128;  // elements; below, loop overhead shows
  static constexpr int64_t kLong = 512;      // and odd ends no longer do

  static int64_t length_for(int64_t channels) {
    if (channels == 0) return 1;
    int64_t pixels = (kShortest + channels - 1) / channels, lanes = kLanes<Vector<float>>;
    // Whole vectors, and rows that all start on a vector's boundary.
    if (channels <= kLong) pixels = round_up(pixels, lanes / std::gcd(channels, lanes));
    return pixels * channels;
  }
};

/// Is a result of so many elements, from `to` on, better stored past the caches? A normal store
/// first reads the line that it overwrites, which only pays where the line is found again: not in
/// results of `large_bytes` and more. The values do not depend on the answer.
template <class T>
bool worth_streaming(const T* to, int64_t elements, int64_t large_bytes = int64_t{24} << 20) {
  return elements * static_cast<int64_t>(sizeof(T)) >= large_bytes &&
         reinterpret_cast<uintptr_t>(to) % kVectorBytes == 0;
}
/// The same of rows.
template <class T>
bool worth_streaming(const ChannelRows& rows, const T* to) {
  return rows.length % kLanes<Vector<Compute<T>>> == 0 && worth_streaming(to, rows.elements);
}
/// Asks for what a sweep reads a little later: a processor that looks ahead less than that leaves
/// the memory idle.
template <class T>
inline void prefetch_ahead(const T* from) {
  constexpr int64_t kBytesAhead = 2048;
  __builtin_prefetch(from + kBytesAhead / static_cast<int64_t>(sizeof(T)));
}
/// Stores elements [at, at + width) of a result, as `value.operator()<V>(i)` gives them from i of
/// the row on. Past the caches, if `streaming`: halves in pairs of vectors, as the processor is
/// slow to put a line together; the odd end of a buffer normally.
template <class S, class Value>
void put_row(S* result, int64_t at, int64_t width, bool streaming, const Value& value) {
  using V = Vector<Compute<S>>;
  constexpr int64_t kStep = kLanes<V>;
  S* to = result + at;
  int64_t i = 0;
  if (is_low_precision(dtype_of<S>) && streaming) {
    if (at % (2 * kStep) != 0 && kStep <= width) {
      stream(to, value.template operator()<V>(0));
      i = kStep;
    }
    for (; i + 2 * kStep <= width; i += 2 * kStep)
      stream(to + i, value.template operator()<V>(i), value.template operator()<V>(i + kStep));
  }
  for (; i + kStep <= width; i += kStep) {
    const V one = value.template operator()<V>(i);
    if (streaming)
      stream(to + i, one);
    else
      store(to + i, one);
  }
  for (; i < width; ++i) store(to + i, value.template operator()<Compute<S>>(i));
}

/// Calls `body(at, width)` for all rows, in parallel, from the last stretch of rows to the first:
/// what an earlier sweep read last is still in the cache.
template <class Body>
void for_rows_backwards(const ChannelRows& rows, const Body& body) {
  constexpr int64_t kGrain = 16384, kStretch = 65536;  // elements
  int64_t stretch = std::max<int64_t>(kStretch / rows.length, 1);
  parallel_for(rows.count, std::max<int64_t>(kGrain / rows.length, 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t stop = end; stop > begin; stop -= stretch)
                   for (int64_t i = std::max(stop - stretch, begin); i < stop; ++i)
                     body(rows.start(i), rows.start(i + 1) - rows.start(i));
                 stream_fence();
               });
}

/// Element c of a floating buffer.
inline double element(const View& view, int64_t c) {
  switch (view.dtype) {
    case Dtype::float64:
      return view.as<double>()[c];
    case Dtype::float16:
      return convert<double>(view.as<Float16>()[c]);
    case Dtype::bfloat16:
      return convert<double>(view.as<BFloat16>()[c]);
    default:
      return view.as<float>()[c];
  }
}
/// use(elements) for a floating buffer, or zeros where it is absent, with elements(c) as `element`
/// gives them: for loops over those of T, which fill vectors.
template <class T, class Use>
void with_elements(const View& view, const Use& use) {
  if (!view.present) return use([](int64_t) { return 0.0; });
  if (view.dtype != dtype_of<T>) return use([&](int64_t c) { return element(view, c); });
  use([of = view.as<T>()](int64_t c) { return static_cast<double>(of[c]); });
}
/// Sets all of a floating buffer to value(c).
template <class Value>
void set_elements(const View& view, const Value& value) {
  const auto set = [&, count = view.numel()](auto* to) {
#pragma omp simd
    for (int64_t c = 0; c < count; ++c)
      to[c] = convert<std::remove_pointer_t<decltype(to)>>(value(c));
  };
  switch (view.dtype) {
    case Dtype::float64:
      return set(view.as<double>());
    case Dtype::float16:
      return set(view.as<Float16>());
    case Dtype::bfloat16:
      return set(view.as<BFloat16>());
    default:
      return set(view.as<float>());
  }
}

}  // namespace brim::cpu
