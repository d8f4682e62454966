#include "brim/memory/plan/obstacles.h"

#include <algorithm>

namespace brim::memory {
namespace {
using Kind = ArenaBlock::Kind;
}

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

ArenaBlock* Obstacles::in_the_way(ExpectedProgram& program, int64_t i) {
  ArenaBlock* found = nullptr;
  for (int32_t before : program.before_of(program.request(i))) {
    ArenaBlock& other = program.block(before);
    if (other.kind == Kind::none) continue;
    if (!other.is_obstacle) add(&other);
    found = &other;
  }
  if (found != nullptr || blocks_.empty()) return found;
  const ArenaBlock& block = program.block(i);
  return overlapping(block.offset, block.bytes);
}

void Obstacles::pass_over(ExpectedProgram& program, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; ++i)
    for (int32_t before : program.before_of(program.request(i))) {
      ArenaBlock& block = program.block(before);
      if (block.kind != Kind::none && !block.is_obstacle) add(&block);
    }
}

void Obstacles::settle(const HeldBlocks& held, int32_t program, int64_t time) noexcept {
  for (ArenaBlock* block : blocks_) block->is_obstacle = false;
  blocks_.clear();
  for (ArenaBlock* block = held.first(); block != held.end(); block = block->next) {
    const bool is_of_plan = block->kind == Kind::planned && block->program == program;
    if (is_of_plan && block->birth < time && time < block->death) continue;
    blocks_.push_back(block);
    block->is_obstacle = true;
  }
  std::ranges::sort(blocks_, {}, &ArenaBlock::offset);
}

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
