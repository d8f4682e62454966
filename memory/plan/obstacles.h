// Blocks of an arena that are held where or when the plan does not have them, by offset; and where
// between blocks there is room.
#pragma once

#include <cstdint>
#include <vector>

#include "brim/memory/plan/expected.h"
#include "brim/memory/plan/held_blocks.h"

namespace brim::memory {

class Obstacles {
 public:
  /// A block that should be gone from where request `i` goes, or null. Those that nobody knew of
  /// are obstacles from here on.
  ArenaBlock* in_the_way(ExpectedProgram& program, int64_t i);
  /// Sets and clears `is_obstacle`. Blocks do not overlap.
  void add(ArenaBlock* block);
  void remove(ArenaBlock* block) noexcept;
  /// Requests that did not come: nobody looked for what would have been in their way, and those
  /// that take over from them look for nobody else.
  void pass_over(ExpectedProgram& program, int64_t from, int64_t to);
  /// All that is held at this time of the program as the plan has it will be looked for; the rest
  /// are the obstacles.
  void settle(const HeldBlocks& held, int32_t program, int64_t time) noexcept;
  /// Nothing is allocated for as many blocks.
  void reserve(size_t blocks) { blocks_.reserve(blocks); }

 private:
  ArenaBlock* overlapping(int64_t offset, int64_t bytes) const;

  std::vector<ArenaBlock*> blocks_;  // by offset
};

/// The offset of the smallest gap between `used` ranges that has room for `bytes`, from `begin` to
/// `end`; the lowest of equal ones; -1 where there is none. Sorts `used`, whose ranges may overlap.
int64_t best_gap(std::vector<Range>& used, int64_t begin, int64_t end, int64_t bytes);

}  // namespace brim::memory
