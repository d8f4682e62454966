#include "brim/memory/plan/free_ranges.h"

#include <iterator>

namespace brim::memory {

void FreeRanges::give(int64_t offset, int64_t bytes) {
  auto next = by_offset_.lower_bound(offset);
  if (next != by_offset_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
      remove(previous);
    }
  }
  if (next != by_offset_.end() && offset + bytes == next->first) {
    bytes += next->second;
    remove(next);
  }
  add(offset, bytes);
}

int64_t FreeRanges::take(int64_t bytes) {
  auto best = by_size_.lower_bound({bytes, 0});
  if (best == by_size_.end()) return -1;
  auto [size, offset] = *best;
  remove(by_offset_.find(offset));
  if (size > bytes) add(offset + bytes, size - bytes);
  return offset;
}

void FreeRanges::add(int64_t offset, int64_t bytes) {
  by_offset_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void FreeRanges::remove(std::map<int64_t, int64_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  by_offset_.erase(range);
}

}  // namespace brim::memory
