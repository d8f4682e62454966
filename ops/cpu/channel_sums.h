// Sums over the pixels of tensors [..., C], two at a time, as batch norm wants them forward and
// backward. They are kept for fixed pieces of the pixels: in T over a few rows, then in double;
// added up in order, they are the same with any number of threads. For one sum, over any axes, use
// `kernel::sum`, for the gradient of a bias `kernel::bias_gradient`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "brim/ops/cpu/channel_rows.h"

namespace brim::cpu {

/// The sums of one piece.
template <class T>
struct ChannelSums {
  T *first, *second;                   // over a few rows, repeated to the length of a row
  double *total_first, *total_second;  // per channel

  ChannelSums(ScratchCursor& scratch, const ChannelRows& rows)
      : first(rows.take_row<T>(scratch)),
        second(rows.take_row<T>(scratch)),
        total_first(scratch.take<double>(rows.channels)),
        total_second(scratch.take<double>(rows.channels)) {}

  void clear(const ChannelRows& rows) const {
    for (T* sum : {first, second}) std::fill_n(sum, rows.length, T(0));
    for (double* total : {total_first, total_second}) std::fill_n(total, rows.channels, 0.0);
  }
  void flush(const ChannelRows& rows) const {
    for (int64_t begin = 0; begin < rows.length; begin += rows.channels)
      for (int64_t c = 0; c < rows.channels; ++c) {
        total_first[c] += static_cast<double>(first[begin + c]);
        total_second[c] += static_cast<double>(second[begin + c]);
      }
    for (T* sum : {first, second}) std::fill_n(sum, rows.length, T(0));
  }
  template <class V>
  void add(int64_t i, V to_first, V to_second) const {
    store(first + i, load<V>(first + i) + to_first);
    store(second + i, load<V>(second + i) + to_second);
  }
};

/// Terms that are added as T before they go to sums in double.
inline constexpr int64_t kFlushRows = 128;

/// Calls `body(group, at, width)` for all elements in [begin, end): `group` rows of `width`
/// elements from element `at`, where `group` is a compile-time number. What is kept per channel is
/// then loaded once for the group. After at most `kFlushRows` rows, and at the end, calls
/// `flush()`.
template <int kGroup, class Body, class Flush>
void for_row_groups(int64_t begin, int64_t end, int64_t length, const Body& body,
                    const Flush& flush) {
  for (int64_t at = begin; at < end;) {
    int64_t stop = std::min(at + kFlushRows * length, end);
    for (; at + kGroup * length <= stop; at += kGroup * length)
      body(std::integral_constant<int, kGroup>(), at, length);
    for (; at < stop; at += length)
      body(std::integral_constant<int, 1>(), at, std::min(length, stop - at));
    flush();
  }
}
template <class T, class Body, class Flush>
void for_row_groups(const ChannelRows& rows, int64_t first, int64_t last, const Body& body,
                    const Flush& flush) {
  // Addresses 4096 bytes apart compete for the same eight lines of the nearest cache.
  bool collide = rows.length * static_cast<int64_t>(sizeof(T)) % 4096 == 0;
  int64_t begin = rows.start(first), end = rows.start(last);
  if (collide)
    for_row_groups<2>(begin, end, rows.length, body, flush);
  else
    for_row_groups<4>(begin, end, rows.length, body, flush);
}

/// While vector i of a group of rows is worked on: the part of the next group that is as far in.
template <int kRows, class T>
inline void prefetch_next(const T* rows, int64_t length, int64_t i) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  const T* next = rows + kRows * (length + i);
  constexpr int64_t kCount = kRows * kLanes<Vector<Compute<T>>>;
  for (int64_t at = 0; at < kCount; at += kLine) __builtin_prefetch(next + at);
}

}  // namespace brim::cpu
