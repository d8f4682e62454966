#include "brim/memory/plan/kept_blocks.h"

namespace brim::memory {

KeptBlocks::KeptBlocks(const Plan& plan) {
  for (const KeptPlaces& kept : plan.kept) {
    const auto number = static_cast<int32_t>(places_.size());
    numbers_.emplace(kept.bytes, number);
    Places& places = places_.emplace_back();
    places.never_used = kept.count;
    for (int64_t i = 0; i < kept.count; ++i)
      places.blocks.push_back(
          {.program = number, .offset = kept.offset + i * kept.bytes, .bytes = kept.bytes});
    for (size_t i = places.blocks.size(); i-- > 0;) places.free.push_back(&places.blocks[i]);
  }
}

KeptBlocks::Places* KeptBlocks::with_room_for(int64_t bytes) {
  const auto found = numbers_.find(bytes);
  if (found == numbers_.end()) return nullptr;
  Places& places = numbered(found->second);
  return places.free.empty() ? nullptr : &places;
}

ArenaBlock& KeptBlocks::take(Places& places) noexcept {
  ArenaBlock& block = *places.free.back();
  places.free.pop_back();
  if (block.birth == 0) --places.never_used;
  block.birth = 1;
  return block;
}

}  // namespace brim::memory
