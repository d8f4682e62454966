// Updates that go through memory a stretch at a time, and ask for what comes later: a parameter, its
// gradient and its state are more streams than a processor follows by itself, page after page.
#pragma once

#include <algorithm>
#include <cstdint>

namespace brim::cpu {

/// Asks for elements [begin, begin + count), into the second cache: the first is full. They may lie
/// behind the end of all.
template <class T>
void fetch_lines(const T* elements, int64_t begin, int64_t count) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; i += kLine)
    __builtin_prefetch(elements + begin + i, 0, /*locality=*/2);
}

/// Calls `update(at, count, gradient + at)` for stretches of [begin, end), and before each
/// `update.fetch(later, count)`.
template <class T, class Update>
void update_stretches(const T* gradient, int64_t begin, int64_t end, const Update& update) {
  constexpr int64_t kStretch = 64, kAhead = 512;
  for (int64_t at = begin; at < end; at += kStretch) {
    const int64_t count = std::min(kStretch, end - at);
    update.fetch(at + kAhead, count);
    fetch_lines(gradient, at + kAhead, count);
    update(at, count, gradient + at);
  }
}

}  // namespace brim::cpu
