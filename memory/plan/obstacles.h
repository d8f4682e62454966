// Blocks of an arena that are held where or when the plan does not have them, by offset; and where
// between blocks there is room.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "brim/memory/plan/expected.h"

namespace brim::memory {

class Obstacles {
 public:
  bool empty() const { return blocks_.empty(); }
  /// A block that overlaps these bytes of the arena, or null.
  ArenaBlock* overlapping(int64_t offset, int64_t bytes) const;
  /// Sets and clears `is_obstacle`. Blocks do not overlap.
  void add(ArenaBlock* block);
  void remove(ArenaBlock* block) noexcept;
  void clear() noexcept;
  /// For many at once: `add_last` each, then `sort`.
  void add_last(ArenaBlock* block);
  void sort() noexcept;
  /// Nothing is allocated for as many blocks.
  void reserve(size_t blocks) { blocks_.reserve(blocks); }
  size_t capacity() const { return blocks_.capacity(); }

 private:
  std::vector<ArenaBlock*> blocks_;  // by offset
};

/// Begin and end of bytes in use.
using Range = std::pair<int64_t, int64_t>;

/// The offset of the smallest gap between `used` ranges that has room for `bytes`, from `begin` to
/// `end`; the lowest of equal ones; -1 where there is none. Sorts `used`, whose ranges may overlap.
int64_t best_gap(std::vector<Range>& used, int64_t begin, int64_t end, int64_t bytes);

}  // namespace brim::memory
