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
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "brim/base/device.h"
#include "brim/memory/caching_planner.h"
#include "brim/memory/plan/cursor.h"
#include "brim/memory/plan/free_ranges.h"
#include "brim/memory/plan/mismatches.h"
#include "brim/memory/plan/obstacles.h"
#include "brim/memory/plan/plan.h"
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
  int64_t cached() const override { return plan_->arena_bytes - used_ + beyond_.cached(); }
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

  void begin_step() override;
  void end_step() noexcept override;
  void begin_section(const Section& section) override;
  void end_section() noexcept override;

 private:
  // What of the program is running.
  struct Place {
    ExpectedProgram* program = nullptr;  // of the step, or of the section; null for none
    Cursor cursor;                       // none in a section that is not planned
    int64_t strays = 0;                  // requests that the cursor did not find
    bool announced = false;              // are we in a section, or between two?
    bool part = false;                   // the nested section is in the plan of the one around it
  };
  // Places for what lives longer than a program, of one size.
  struct Kept {
    std::vector<ArenaBlock> blocks;
    std::vector<ArenaBlock*> free;  // the last is the next
    int64_t never_used = 0;
  };

  void take_arena(const ArenaOptions& options);
  void make_kept();
  bool begins_run(const Site& site);

  Placement place_found(int64_t i, const Request& request, int64_t high);
  Placement place_unknown(const Request& request);
  Placement place_unmatched(const Request& request);
  Placement place_displaced(const Request& request, int64_t death, ArenaBlock* holder);
  Placement take_kept(Kept& kept, const Request& request);
  Placement take_beyond(const Request& request);
  Placement take_gap(const Request& request, int64_t death);
  Placement take_range(const Request& request);
  Placement occupy_stray(int64_t offset, const Request& request);
  Placement occupy(ArenaBlock& block, ArenaBlock::Kind kind, const Request& request);
  void release_kept(ArenaBlock& block) noexcept;
  void make_spare();
  ArenaBlock& take_spare();

  ArenaBlock* in_the_way(ExpectedProgram& program, int64_t i, bool late);
  ArenaBlock* overlapping_held(const ArenaBlock& block) const;
  void pass_over(ExpectedProgram& program, int64_t from, int64_t to);

  void leave() noexcept;
  void enter(const Section& section);
  void enter(ExpectedProgram& program, int64_t begin, int64_t end);
  bool enter_preamble(const Request& request);
  bool expects(ExpectedProgram& program, int64_t i, const Request& request) const;
  bool is_planned_here(const Section& nested) const;
  void settle(int64_t time) noexcept;
  int64_t largest_gap() const;
  std::vector<Range> held_ranges() const;
  bool is_unplanned() const;
  void find_gaps();

  void note_stream(int stream);
  void order(ExpectedProgram& program, const Expected& expected, int stream);
  void order_after_all(int stream);

  std::shared_ptr<const Plan> plan_;
  std::vector<ExpectedProgram> programs_;
  size_t planned_blocks_ = 0;
  CachingPlanner beyond_;
  char* arena_ = nullptr;
  int64_t used_ = 0;  // bytes of the arena that are held
  Mismatches mismatches_;

  Place now_;
  std::vector<Place> around_;  // of nested sections, the outermost first
  bool step_ = false;
  bool run_known_ = false;  // of the request before this one:
  uint64_t run_ = 0;
  const char* run_op_ = nullptr;
  uint64_t entered_ = 0;  // sections

  std::vector<Kept> kept_;
  std::unordered_map<int64_t, int32_t> kept_with_;  // number in kept_, by bytes
  ArenaBlock held_;  // ring of the blocks that are held above the kept ones
  size_t held_blocks_ = 0;
  Obstacles obstacles_;  // of these, all that a planned request does not look for by itself
  FreeRanges ranges_;    // the gaps, where requests are not looked for in the plan
  bool gaps_known_ = false;
  std::deque<ArenaBlock> spare_;
  std::vector<ArenaBlock*> unused_;  // of spare_
  std::vector<Range> scratch_;

  // Streams that were used, once there is more than 0, and the state of `orders_` in which each was
  // last ordered after all others. Raised where blocks do not tell who had their bytes before.
  std::map<int, uint64_t> streams_;
  uint64_t orders_ = 1;
};

}  // namespace brim::memory
