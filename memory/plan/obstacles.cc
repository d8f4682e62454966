#include "brim/memory/plan/obstacles.h"

#include <algorithm>

namespace brim::memory {

ArenaBlock* Obstacles::overlapping(int64_t offset, int64_t bytes) const {
  auto after = std::ranges::lower_bound(blocks_, offset + bytes, {}, &ArenaBlock::offset);
  if (after == blocks_.begin()) return nullptr;
  ArenaBlock* last = *std::prev(after);
  return last->offset + last->bytes > offset ? last : nullptr;
}

void Obstacles::add(ArenaBlock* block) {
  blocks_.insert(std::ranges::lower_bound(blocks_, block->offset, {}, &ArenaBlock::offset), block);
  block->is_obstacle = true;
}

void Obstacles::remove(ArenaBlock* block) noexcept {
  blocks_.erase(std::ranges::lower_bound(blocks_, block->offset, {}, &ArenaBlock::offset));
  block->is_obstacle = false;
}

void Obstacles::clear() noexcept {
  for (ArenaBlock* block : blocks_) block->is_obstacle = false;
  blocks_.clear();
}

void Obstacles::add_last(ArenaBlock* block) {
  blocks_.push_back(block);
  block->is_obstacle = true;
}

void Obstacles::sort() noexcept { std::ranges::sort(blocks_, {}, &ArenaBlock::offset); }

int64_t best_gap(std::vector<Range>& used, int64_t begin, int64_t end, int64_t bytes) {
  std::ranges::sort(used);
  used.emplace_back(end, end);
  int64_t best = -1, best_size = 0, top = begin;
  for (auto [from, to] : used) {
    int64_t size = from - top;
    if (size >= bytes && (best < 0 || size < best_size)) best = top, best_size = size;
    top = std::max(top, to);
  }
  return best;
}

}  // namespace brim::memory
