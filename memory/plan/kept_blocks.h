// The places at the bottom of an arena, for what lives longer than a program: of each size as many
// as the plan set aside (`Plan::kept`). Which of equal ones a request gets makes no difference. For
// the arena planner.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "brim/memory/plan/expected.h"

namespace brim::memory {

class KeptBlocks {
 public:
  /// Those of one size.
  struct Places {
    std::vector<ArenaBlock> blocks;
    std::vector<ArenaBlock*> free;  // the last is the next
    int64_t never_used = 0;
  };

  explicit KeptBlocks(const Plan& plan);

  /// By number in `Plan::kept`.
  Places& numbered(int32_t number) { return places_[static_cast<size_t>(number)]; }
  /// Where there is one free, those of so many bytes; else null.
  Places* with_room_for(int64_t bytes);

  /// A free one.
  static ArenaBlock& take(Places& places) noexcept;
  void give_back(ArenaBlock& block) noexcept { numbered(block.program).free.push_back(&block); }

 private:
  std::vector<Places> places_;
  std::unordered_map<int64_t, int32_t> numbers_;  // by bytes
};

}  // namespace brim::memory
