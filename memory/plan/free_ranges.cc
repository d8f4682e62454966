#include "brim/memory/plan/free_ranges.h"

#include <bit>
#include <iterator>
#include <utility>

namespace brim::memory {

void FreeRanges::reserve(size_t ranges) {
  ranges = std::bit_ceil(ranges);
  spare_offsets_.reserve(ranges);
  spare_sizes_.reserve(ranges);
  while (by_offset_.size() + spare_offsets_.size() < ranges) {
    Offsets one{{0, 0}};
    spare_offsets_.push_back(one.extract(one.begin()));
  }
  while (by_size_.size() + spare_sizes_.size() < ranges) {
    Sizes one{{0, 0}};
    spare_sizes_.push_back(one.extract(one.begin()));
  }
}

void FreeRanges::clear() noexcept {
  while (!by_offset_.empty()) remove(by_offset_.begin());
}

void FreeRanges::give(int64_t offset, int64_t bytes) noexcept {
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

int64_t FreeRanges::take(int64_t bytes) noexcept {
  auto best = by_size_.lower_bound({bytes, 0});
  if (best == by_size_.end()) return -1;
  auto [size, offset] = *best;
  remove(by_offset_.find(offset));
  if (size > bytes) add(offset + bytes, size - bytes);
  return offset;
}

void FreeRanges::add(int64_t offset, int64_t bytes) noexcept {
  spare_offsets_.back().key() = offset;
  spare_offsets_.back().mapped() = bytes;
  by_offset_.insert(std::move(spare_offsets_.back()));
  spare_offsets_.pop_back();
  spare_sizes_.back().value() = {bytes, offset};
  by_size_.insert(std::move(spare_sizes_.back()));
  spare_sizes_.pop_back();
}

void FreeRanges::remove(Offsets::iterator range) noexcept {
  spare_sizes_.push_back(by_size_.extract({range->second, range->first}));
  spare_offsets_.push_back(by_offset_.extract(range));
}

}  // namespace brim::memory
