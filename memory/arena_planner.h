// Replays a plan (memory/plan/plan.h): takes the arena's bytes from the source once, when it is
// made, and gives every request the place that the plan has for it. The steps of a program that
// does what was rehearsed reserve exactly what was predicted, and nothing more.
//
// What does differ is served too, and counted (`AccountStats::mismatches`): no place is handed out
// before the buffers that should be gone from there are gone. A request that finds another one's
// buffer in its place gets one that the plan leaves free for as long as it lives; one that is not
// in the plan gets bytes beyond the arena, as far as the source gives them, or else what the plan
// leaves free. Not for programs whose requests differ from run to run: see CachingPlanner.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brim/base/device.h"
#include "brim/memory/caching_planner.h"
#include "brim/memory/plan/arena_streams.h"
#include "brim/memory/plan/expected.h"
#include "brim/memory/plan/free_ranges.h"
#include "brim/memory/plan/held_blocks.h"
#include "brim/memory/plan/kept_blocks.h"
#include "brim/memory/plan/mismatches.h"
#include "brim/memory/plan/obstacles.h"
#include "brim/memory/plan/plan.h"
#include "brim/memory/plan/whereabouts.h"
#include "brim/memory/planner.h"

namespace brim::memory {

struct ArenaOptions {
  Device device = Device::cpu();  ///< that the source is of, for messages
};

/// For an `Account`. Making it throws `OutOfMemory` where the source does not give the plan's
/// bytes, so that nothing runs that cannot finish.
MakePlanner arena_planner(std::shared_ptr<const Plan> plan, const ArenaOptions& options = {});

class ArenaPlanner final : public Planner {
 public:
  ArenaPlanner(Source& source, std::shared_ptr<const Plan> plan, const ArenaOptions& options = {});
  ~ArenaPlanner() override;

  std::string_view name() const override { return "arena"; }
  Placement place(const Request& request) override;
  /// In a place of `Plan::kept` where one of as many bytes is free, else as what is not in the
  /// plan. What held it is taken to be set up.
  Placement place_kept(const Request& request) override;
  void release(const Placement& placement) noexcept override;
  int64_t cached() const override { return taken_ - used_ + beyond_.cached(); }
  int64_t fragmented() const override { return beyond_.fragmented(); }
  int64_t mismatches() const override { return mismatches_.count(); }
  std::string mismatch_report() const override { return mismatches_.report(); }
  /// Keeps the arena.
  void empty_cache() noexcept override { beyond_.empty_cache(); }
  PlannerStats stats() const override;
  bool reserves_steps() const override { return true; }
  std::shared_ptr<const Plan> plan() const override { return plan_; }
  /// Of something that was placed, from the start of the arena; -1 when it is beyond.
  int64_t offset_of(const Placement& placement) const;

  void begin_step() override { where_.begin_step(); }
  void end_step() noexcept override { follow(where_.end_step()); }
  void begin_section(const Section& section) override { follow(where_.begin_section(section)); }
  void end_section() noexcept override { follow(where_.end_section()); }

 private:
  void take_arena(const ArenaOptions& options);

  Placement place_found(int64_t i, const Request& request, int64_t high);
  Placement place_unknown(const Request& request);
  Placement place_unmatched(const Request& request);
  Placement place_displaced(const Request& request, int64_t death, ArenaBlock* holder);
  Placement take_kept(KeptBlocks::Places& places, const Request& request);
  Placement take_beyond(const Request& request);
  Placement take_gap(const Request& request, int64_t death);
  Placement take_range(const Request& request);
  Placement occupy_stray(int64_t offset, const Request& request);
  Placement occupy(ArenaBlock& block, ArenaBlock::Kind kind, const Request& request);
  Placement give(ArenaBlock& block, ArenaBlock::Kind kind, const Request& request);
  void release_held(ArenaBlock& block) noexcept;
  void make_spare();

  void follow(Whereabouts::Move move) noexcept;
  std::vector<Range> held_ranges() const;
  int64_t largest_gap() const;
  void find_gaps();

  std::shared_ptr<const Plan> plan_;
  std::vector<ExpectedProgram> programs_;
  size_t planned_blocks_ = 0;
  CachingPlanner beyond_;
  char* arena_ = nullptr;
  int64_t taken_ = 0;  // bytes of the arena, in whole pages of the source
  int64_t used_ = 0;   // of those that are held
  Mismatches mismatches_;

  Whereabouts where_;
  ArenaStreams streams_;
  KeptBlocks kept_;
  HeldBlocks held_;      // above the kept ones
  SpareBlocks spare_;    // for what the plan has no block for
  Obstacles obstacles_;  // of the held ones, all that a planned request does not look for by itself
  FreeRanges ranges_;    // the gaps, where requests are not looked for in the plan
  bool gaps_known_ = false;
  std::vector<Range> scratch_;
};

}  // namespace brim::memory
