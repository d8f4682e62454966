// Blocks of an arena that are held, in the order in which they came, and nodes for those that the
// plan has none for. For the arena planner: what gives something up allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "brim/memory/plan/expected.h"

namespace brim::memory {

/// Begin and end of bytes in use.
using Range = std::pair<int64_t, int64_t>;

/// Linked through the blocks themselves.
class HeldBlocks {
 public:
  HeldBlocks() { ring_.next = ring_.previous = &ring_; }
  HeldBlocks(const HeldBlocks&) = delete;
  HeldBlocks& operator=(const HeldBlocks&) = delete;

  void add(ArenaBlock& block) noexcept {
    block.previous = ring_.previous;
    block.next = &ring_;
    ring_.previous->next = &block;
    ring_.previous = &block;
    ++count_;
  }
  void remove(ArenaBlock& block) noexcept {
    block.previous->next = block.next;
    block.next->previous = block.previous;
    --count_;
  }

  size_t count() const { return count_; }
  /// The oldest; follow `next` until `end`.
  ArenaBlock* first() const { return ring_.next; }
  const ArenaBlock* end() const { return &ring_; }
  /// One that overlaps the bytes of `block`, or null.
  ArenaBlock* overlapping(const ArenaBlock& block) const;
  /// The bytes of each, at the end of `ranges`.
  void append_to(std::vector<Range>& ranges) const;

 private:
  ArenaBlock ring_;  // begin and end
  size_t count_ = 0;
};

/// Blocks for requests that are not in the plan, used again and again.
class SpareBlocks {
 public:
  bool empty() const { return unused_.empty(); }
  /// Of all, also of those that are in use.
  size_t count() const { return blocks_.size(); }
  /// Makes one more. Throws `std::bad_alloc`.
  void add();
  /// One of those that are not in use.
  ArenaBlock& take() noexcept;
  void give_back(ArenaBlock& block) noexcept { unused_.push_back(&block); }

 private:
  std::deque<ArenaBlock> blocks_;
  std::vector<ArenaBlock*> unused_;  // with room for all
};

}  // namespace brim::memory
