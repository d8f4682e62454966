#include "brim/memory/plan/held_blocks.h"

#include <bit>

namespace brim::memory {

ArenaBlock* HeldBlocks::overlapping(const ArenaBlock& block) const {
  for (ArenaBlock* held = first(); held != end(); held = held->next)
    if (held->offset < block.offset + block.bytes && block.offset < held->offset + held->bytes)
      return held;
  return nullptr;
}

void HeldBlocks::append_to(std::vector<Range>& ranges) const {
  for (const ArenaBlock* held = first(); held != end(); held = held->next)
    ranges.emplace_back(held->offset, held->offset + held->bytes);
}

void SpareBlocks::add() {
  unused_.reserve(std::bit_ceil(blocks_.size() + 1));
  unused_.push_back(&blocks_.emplace_back());
}

ArenaBlock& SpareBlocks::take() noexcept {
  ArenaBlock& block = *unused_.back();
  unused_.pop_back();
  return block;
}

}  // namespace brim::memory
