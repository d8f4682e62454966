// The free bytes of a stretch that is handed out as it comes: best fit, neighbours joined. For a
// program that the plan of an arena does not know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace brim::memory {

class FreeRanges {
 public:
  /// Up to so many ranges, nothing else here allocates. Between n blocks that are held there are at
  /// most n + 1.
  void reserve(size_t ranges);
  void clear() noexcept;
  /// Adds free bytes; none of them is free already.
  void give(int64_t offset, int64_t bytes) noexcept;
  /// The offset of bytes that are free no longer; -1 where there is no room in one piece.
  int64_t take(int64_t bytes) noexcept;

 private:
  using Offsets = std::map<int64_t, int64_t>;           // to bytes
  using Sizes = std::set<std::pair<int64_t, int64_t>>;  // bytes and offset

  void add(int64_t offset, int64_t bytes) noexcept;
  void remove(Offsets::iterator range) noexcept;

  Offsets by_offset_;
  Sizes by_size_;
  // Unused nodes.
  std::vector<Offsets::node_type> spare_offsets_;
  std::vector<Sizes::node_type> spare_sizes_;
};

}  // namespace brim::memory
