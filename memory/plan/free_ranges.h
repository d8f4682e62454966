// The free bytes of a stretch that is handed out as it comes: best fit, neighbours joined. For a
// program that the plan of an arena does not know.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace brim::memory {

class FreeRanges {
 public:
  /// Adds free bytes; none of them is free already.
  void give(int64_t offset, int64_t bytes);
  /// The offset of bytes that are free no longer; -1 where there is no room in one piece.
  int64_t take(int64_t bytes);

 private:
  void add(int64_t offset, int64_t bytes);
  void remove(std::map<int64_t, int64_t>::iterator range);

  std::map<int64_t, int64_t> by_offset_;           // to bytes
  std::set<std::pair<int64_t, int64_t>> by_size_;  // bytes and offset
};

}  // namespace brim::memory
