#include "brim/memory/arena_planner.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "brim/base/bytes.h"
#include "brim/base/error.h"
#include "brim/memory/out_of_memory.h"

namespace brim::memory {
namespace {

using Kind = ArenaBlock::Kind;

}  // namespace

MakePlanner arena_planner(std::shared_ptr<const Plan> plan, const ArenaOptions& options) {
  check(plan != nullptr, "an arena has a plan");
  return [plan = std::move(plan), options](Source& source) {
    return std::make_unique<ArenaPlanner>(source, plan, options);
  };
}

ArenaPlanner::ArenaPlanner(Source& source, std::shared_ptr<const Plan> plan,
                           const ArenaOptions& options)
    : Planner(source),
      plan_(std::move(plan)),
      programs_(expect_programs(*plan_)),
      beyond_(source),
      where_(*plan_, programs_),
      streams_(source),
      kept_(*plan_) {
  for (const ExpectedProgram& program : programs_) planned_blocks_ += program.blocks.size();
  obstacles_.reserve(planned_blocks_);
  take_arena(options);
}

void ArenaPlanner::take_arena(const ArenaOptions& options) {
  if (plan_->arena_bytes == 0) return;
  const int64_t bytes = round_up(plan_->arena_bytes, source().pages().bytes);
  arena_ = static_cast<char*>(source().allocate(bytes));
  if (arena_ != nullptr) {
    taken_ = bytes;
    return;
  }
  throw OutOfMemory({.device = options.device,
                     .requested = bytes,
                     .category = Category::other,
                     .total = source().capacity(),
                     .free = std::max<int64_t>(source().capacity() - source().used(), 0)});
}

ArenaPlanner::~ArenaPlanner() {
  streams_.finish();
  if (arena_ != nullptr) source().deallocate(arena_, taken_);
}

PlannerStats ArenaPlanner::stats() const {
  PlannerStats stats = beyond_.stats();
  stats.segments += plan_->arena_bytes > 0 ? 1 : 0;
  stats.largest_free = std::max(stats.largest_free, largest_gap());
  return stats;
}

int64_t ArenaPlanner::offset_of(const Placement& placement) const {
  auto address = reinterpret_cast<uintptr_t>(placement.address);
  auto arena = reinterpret_cast<uintptr_t>(arena_),
       end = arena + static_cast<uintptr_t>(plan_->arena_bytes);
  return arena <= address && address < end ? static_cast<int64_t>(address - arena) : -1;
}

// ---- Requests

Placement ArenaPlanner::place(const Request& request) {
  streams_.note(request.stream);
  const bool begins = where_.begins_run(*request.site);
  if (where_.is_unplanned()) return place_unknown(request);
  if (where_.cursor()) {
    const int64_t high = where_.cursor().high();
    const int64_t i = where_.cursor().find(request, begins);
    if (i >= 0) return place_found(i, request, high);
  }
  if (const auto move = where_.enter_preamble(request); move != Whereabouts::Move::none) {
    follow(move);
    const int64_t high = where_.cursor().high();
    const int64_t i = where_.cursor().find(request, true);
    if (i >= 0) return place_found(i, request, high);
  }
  return place_unmatched(request);
}

Placement ArenaPlanner::place_kept(const Request& request) {
  follow(where_.end_setup());
  streams_.note(request.stream);
  return place_unmatched(request);
}

Placement ArenaPlanner::place_found(int64_t i, const Request& request, int64_t high) {
  ExpectedProgram& program = *where_.program();
  if (i > high) {
    obstacles_.pass_over(program, high, i);
    streams_.lose_track();
  }
  const Expected& expected = program.request(i);
  if (expected.kept >= 0) {
    KeptBlocks::Places& places = kept_.numbered(expected.kept);
    if (!places.free.empty()) return take_kept(places, request);
    return place_displaced(request, program.size(), nullptr);
  }
  ArenaBlock& block = program.block(i);
  bool late = i < high;
  ArenaBlock* holder = obstacles_.in_the_way(program, i);
  if (holder == nullptr && late) holder = held_.overlapping(block);
  if (holder != nullptr) return place_displaced(request, block.death, holder);
  streams_.before(program, expected, request.stream);
  Placement placement = occupy(block, Kind::planned, request);
  if (late) obstacles_.add(&block);  // requests after it did not look for it
  return placement;
}

// In a section that is not the plan's.
Placement ArenaPlanner::place_unknown(const Request& request) {
  Placement placement = take_range(request);
  if (placement.address == nullptr) placement = take_beyond(request);
  if (placement.address != nullptr) mismatches_.add(request, nullptr);
  return placement;
}

Placement ArenaPlanner::place_unmatched(const Request& request) {
  if (KeptBlocks::Places* places = kept_.with_room_for(request.bytes)) {
    // What a program keeps it may make in any order, between sections or, once, within one.
    if (where_.is_in_section() && places->never_used == 0) mismatches_.add(request, nullptr);
    return take_kept(*places, request);
  }
  if (where_.loses_cursor() && where_.is_unplanned()) return place_unknown(request);
  Placement placement = take_beyond(request);
  if (placement.address == nullptr && where_.cursor())
    placement = take_gap(request, where_.program()->size());
  if (placement.address == nullptr) placement = take_gap(request, 0);
  if (placement.address != nullptr) mismatches_.add(request, nullptr);
  return placement;
}

// Its place is taken. When it dies is known, so the plan may leave room for it elsewhere.
Placement ArenaPlanner::place_displaced(const Request& request, int64_t death, ArenaBlock* holder) {
  Placement placement = take_gap(request, death);
  if (placement.address == nullptr) placement = take_beyond(request);
  if (placement.address == nullptr) placement = take_gap(request, 0);
  if (placement.address != nullptr) mismatches_.add(request, holder);
  return placement;
}

Placement ArenaPlanner::take_kept(KeptBlocks::Places& places, const Request& request) {
  ArenaBlock& block = KeptBlocks::take(places);
  streams_.after(block, request.stream);
  return give(block, Kind::kept, request);
}

Placement ArenaPlanner::take_beyond(const Request& request) {
  make_spare();
  Placement placement = beyond_.place(request);
  if (placement.address == nullptr) return {};
  ArenaBlock& block = spare_.take();
  block.kind = Kind::beyond;
  block.beyond = placement;
  return {placement.address, &block};
}

// Arena bytes that nobody holds, and that the plan does not use before request `death`.
Placement ArenaPlanner::take_gap(const Request& request, int64_t death) {
  make_spare();
  scratch_.clear();
  held_.append_to(scratch_);
  for (int64_t i = where_.cursor() ? where_.cursor().high() : death; i < death; ++i)
    if (const ArenaBlock& block = where_.program()->block(i); block.offset >= 0)
      scratch_.emplace_back(block.offset, block.offset + block.bytes);
  int64_t offset = best_gap(scratch_, plan_->kept_bytes, plan_->arena_bytes, request.bytes);
  if (offset < 0) return {};
  Placement placement = occupy_stray(offset, request);
  obstacles_.add(static_cast<ArenaBlock*>(placement.token));
  return placement;
}

Placement ArenaPlanner::take_range(const Request& request) {
  make_spare();
  if (!gaps_known_) find_gaps();
  ranges_.reserve(held_.count() + 2);  // releases must not throw
  int64_t offset = ranges_.take(request.bytes);
  return offset < 0 ? Placement{} : occupy_stray(offset, request);
}

Placement ArenaPlanner::occupy_stray(int64_t offset, const Request& request) {
  ArenaBlock& block = spare_.take();
  block.offset = offset;
  block.bytes = request.bytes;
  streams_.after_all(request.stream);
  return occupy(block, Kind::stray, request);
}

Placement ArenaPlanner::occupy(ArenaBlock& block, Kind kind, const Request& request) {
  held_.add(block);
  return give(block, kind, request);
}

Placement ArenaPlanner::give(ArenaBlock& block, Kind kind, const Request& request) {
  block.kind = kind;
  block.site = *request.site;
  block.stream = request.stream;
  used_ += block.bytes;
  return {arena_ + block.offset, &block};
}

// Before anything is taken that would have to be given back.
void ArenaPlanner::make_spare() {
  if (!spare_.empty()) return;
  // Releases must not throw, and there are as many obstacles at most.
  obstacles_.reserve(planned_blocks_ + std::bit_ceil(spare_.count() + 1));
  spare_.add();
}

void ArenaPlanner::release(const Placement& placement) noexcept {
  auto& block = *static_cast<ArenaBlock*>(placement.token);
  const Kind kind = std::exchange(block.kind, Kind::none);
  if (kind == Kind::beyond)
    beyond_.release(block.beyond);
  else
    used_ -= block.bytes;
  if (kind == Kind::kept) return kept_.give_back(block);
  if (kind != Kind::beyond) release_held(block);
  if (kind != Kind::planned) spare_.give_back(block);
}

void ArenaPlanner::release_held(ArenaBlock& block) noexcept {
  held_.remove(block);
  if (block.is_obstacle) {
    obstacles_.remove(&block);
    streams_.lose_track();
  }
  if (gaps_known_) ranges_.give(block.offset, block.bytes);
}

// Wherever the program is now, what is held is looked at anew.
void ArenaPlanner::follow(Whereabouts::Move move) noexcept {
  if (move == Whereabouts::Move::none) return;
  gaps_known_ = false;
  if (move == Whereabouts::Move::out) return;
  streams_.lose_track();
  obstacles_.settle(held_, where_.program_number(), where_.cursor().high());
}

// ---- Gaps

int64_t ArenaPlanner::largest_gap() const {
  int64_t top = plan_->kept_bytes, largest = 0;
  try {
    for (auto [from, to] : held_ranges()) {
      largest = std::max(largest, from - top);
      top = to;
    }
  } catch (const std::bad_alloc&) {
    return 0;  // not worth a failure: it is asked for by messages
  }
  return largest;
}

/// In order, and the end of the arena.
std::vector<Range> ArenaPlanner::held_ranges() const {
  std::vector<Range> ranges;
  held_.append_to(ranges);
  std::ranges::sort(ranges);
  ranges.emplace_back(plan_->arena_bytes, plan_->arena_bytes);
  return ranges;
}

void ArenaPlanner::find_gaps() {
  ranges_.clear();
  ranges_.reserve(held_.count() + 2);
  int64_t top = plan_->kept_bytes;
  for (auto [from, to] : held_ranges()) {
    if (from > top) ranges_.give(top, from - top);
    top = to;
  }
  gaps_known_ = true;
}

}  // namespace brim::memory
