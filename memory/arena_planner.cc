#include "brim/memory/arena_planner.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "brim/base/error.h"
#include "brim/memory/out_of_memory.h"

namespace brim::memory {
namespace {

using Kind = ArenaBlock::Kind;

// Beyond this many requests that are not in the plan, and half as many as are, the program is
// another one: looking for the rest would cost more than it finds.
constexpr int64_t kStrays = 64;

}  // namespace

MakePlanner arena_planner(std::shared_ptr<const Plan> plan, const ArenaOptions& options) {
  check(plan != nullptr, "an arena has a plan");
  return [plan = std::move(plan), options](Source& source) {
    return std::make_unique<ArenaPlanner>(source, plan, options);
  };
}

ArenaPlanner::ArenaPlanner(Source& source, std::shared_ptr<const Plan> plan,
                           const ArenaOptions& options)
    : Planner(source), plan_(std::move(plan)), programs_(expect_programs(*plan_)), beyond_(source) {
  held_.next = held_.previous = &held_;
  make_kept();
  around_.reserve(4);
  for (const ExpectedProgram& program : programs_) planned_blocks_ += program.blocks.size();
  obstacles_.reserve(planned_blocks_);
  if (!programs_.empty()) enter(programs_.front(), 0, programs_.front().size());
  take_arena(options);
}

void ArenaPlanner::take_arena(const ArenaOptions& options) {
  if (plan_->arena_bytes == 0) return;
  arena_ = static_cast<char*>(source().allocate(plan_->arena_bytes));
  if (arena_ != nullptr) return;
  throw OutOfMemory({.device = options.device,
                     .requested = plan_->arena_bytes,
                     .category = Category::other,
                     .total = source().capacity(),
                     .free = std::max<int64_t>(source().capacity() - source().used(), 0)});
}

ArenaPlanner::~ArenaPlanner() {
  for (const auto& [stream, ordered] : streams_) source().finish(stream);
  if (arena_ != nullptr) source().deallocate(arena_, plan_->arena_bytes);
}

void ArenaPlanner::make_kept() {
  for (const KeptPlaces& places : plan_->kept) {
    auto number = static_cast<int32_t>(kept_.size());
    kept_with_.emplace(places.bytes, number);
    Kept& kept = kept_.emplace_back();
    kept.never_used = places.count;
    for (int64_t i = 0; i < places.count; ++i)
      kept.blocks.push_back(
          {.program = number, .offset = places.offset + i * places.bytes, .bytes = places.bytes});
    for (size_t i = kept.blocks.size(); i-- > 0;) kept.free.push_back(&kept.blocks[i]);
  }
}

PlannerStats ArenaPlanner::stats() const {
  PlannerStats stats = beyond_.stats();
  stats.segments += plan_->arena_bytes > 0 ? 1 : 0;
  stats.largest_free = std::max(stats.largest_free, largest_gap());
  return stats;
}

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
  for (const ArenaBlock* held = held_.next; held != &held_; held = held->next)
    ranges.emplace_back(held->offset, held->offset + held->bytes);
  std::ranges::sort(ranges);
  ranges.emplace_back(plan_->arena_bytes, plan_->arena_bytes);
  return ranges;
}

int64_t ArenaPlanner::offset_of(const Placement& placement) const {
  auto address = reinterpret_cast<uintptr_t>(placement.address);
  auto arena = reinterpret_cast<uintptr_t>(arena_),
       end = arena + static_cast<uintptr_t>(plan_->arena_bytes);
  return arena <= address && address < end ? static_cast<int64_t>(address - arena) : -1;
}

// ---- Requests

Placement ArenaPlanner::place(const Request& request) {
  note_stream(request.stream);
  bool begins = begins_run(*request.site);
  if (is_unplanned()) return place_unknown(request);
  if (now_.cursor) {
    int64_t high = now_.cursor.high();
    int64_t i = now_.cursor.find(request, begins);
    if (i >= 0) return place_found(i, request, high);
  }
  if (enter_preamble(request)) {
    int64_t high = now_.cursor.high();
    int64_t i = now_.cursor.find(request, true);
    if (i >= 0) return place_found(i, request, high);
  }
  return place_unmatched(request);
}

Placement ArenaPlanner::place_kept(const Request& request) {
  if (!programs_.empty() && now_.program == programs_.data()) leave();
  note_stream(request.stream);
  return place_unmatched(request);
}

// Between two ops, requests have no run of their own.
bool ArenaPlanner::begins_run(const Site& site) {
  uint64_t run = *site.op == '\0' ? 0 : site.run;
  bool begins = !run_known_ || run != run_ || (run != 0 && site.op != run_op_);
  run_known_ = true;
  run_ = run;
  run_op_ = site.op;
  return begins;
}

Placement ArenaPlanner::place_found(int64_t i, const Request& request, int64_t high) {
  ExpectedProgram& program = *now_.program;
  if (i > high) pass_over(program, high, i);
  const Expected& expected = program.request(i);
  if (expected.kept >= 0) {
    Kept& kept = kept_[static_cast<size_t>(expected.kept)];
    if (!kept.free.empty()) return take_kept(kept, request);
    return place_displaced(request, program.size(), nullptr);
  }
  ArenaBlock& block = program.block(i);
  bool late = i < high;
  if (ArenaBlock* holder = in_the_way(program, i, late))
    return place_displaced(request, block.death, holder);
  if (!streams_.empty()) order(program, expected, request.stream);
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
  if (auto found = kept_with_.find(request.bytes); found != kept_with_.end()) {
    Kept& kept = kept_[static_cast<size_t>(found->second)];
    if (!kept.free.empty()) {
      // What a program keeps it may make in any order, between sections or, once, within one.
      if (now_.announced && kept.never_used == 0) mismatches_.add(request, nullptr);
      return take_kept(kept, request);
    }
  }
  if (now_.cursor && ++now_.strays > kStrays + now_.cursor.found() / 2) {
    now_.cursor = {};  // the program is not the planned one
    if (is_unplanned()) return place_unknown(request);
  }
  Placement placement = take_beyond(request);
  if (placement.address == nullptr && now_.cursor)
    placement = take_gap(request, now_.program->size());
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

Placement ArenaPlanner::take_kept(Kept& kept, const Request& request) {
  ArenaBlock& block = *kept.free.back();
  kept.free.pop_back();
  if (block.birth == 0) --kept.never_used;
  block.birth = 1;
  if (!streams_.empty()) source().wait(request.stream, block.stream);
  block.kind = Kind::kept;
  block.site = *request.site;
  block.stream = request.stream;
  used_ += block.bytes;
  return {arena_ + block.offset, &block};
}

Placement ArenaPlanner::take_beyond(const Request& request) {
  make_spare();
  Placement placement = beyond_.place(request);
  if (placement.address == nullptr) return {};
  ArenaBlock& block = take_spare();
  block.kind = Kind::beyond;
  block.beyond = placement;
  return {placement.address, &block};
}

// Arena bytes that nobody holds, and that the plan does not use before request `death`.
Placement ArenaPlanner::take_gap(const Request& request, int64_t death) {
  make_spare();
  scratch_.clear();
  for (ArenaBlock* held = held_.next; held != &held_; held = held->next)
    scratch_.emplace_back(held->offset, held->offset + held->bytes);
  for (int64_t i = now_.cursor ? now_.cursor.high() : death; i < death; ++i)
    if (const ArenaBlock& block = now_.program->block(i); block.offset >= 0)
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
  ranges_.reserve(held_blocks_ + 2);  // releases must not throw
  int64_t offset = ranges_.take(request.bytes);
  return offset < 0 ? Placement{} : occupy_stray(offset, request);
}

Placement ArenaPlanner::occupy_stray(int64_t offset, const Request& request) {
  ArenaBlock& block = take_spare();
  block.offset = offset;
  block.bytes = request.bytes;
  if (!streams_.empty()) order_after_all(request.stream);
  return occupy(block, Kind::stray, request);
}

Placement ArenaPlanner::occupy(ArenaBlock& block, Kind kind, const Request& request) {
  block.kind = kind;
  block.site = *request.site;
  block.stream = request.stream;
  block.previous = held_.previous;
  block.next = &held_;
  held_.previous->next = &block;
  held_.previous = &block;
  ++held_blocks_;
  used_ += block.bytes;
  return {arena_ + block.offset, &block};
}

// Before anything is taken that would have to be given back.
void ArenaPlanner::make_spare() {
  if (!unused_.empty()) return;
  ArenaBlock& block = spare_.emplace_back();
  // Releases must not throw, and there are as many obstacles at most.
  unused_.reserve(std::bit_ceil(spare_.size()));
  obstacles_.reserve(planned_blocks_ + std::bit_ceil(spare_.size()));
  unused_.push_back(&block);
}

ArenaBlock& ArenaPlanner::take_spare() {
  ArenaBlock& block = *unused_.back();
  unused_.pop_back();
  return block;
}

void ArenaPlanner::release(const Placement& placement) noexcept {
  auto& block = *static_cast<ArenaBlock*>(placement.token);
  Kind kind = std::exchange(block.kind, Kind::none);
  if (kind == Kind::kept) return release_kept(block);
  if (kind == Kind::beyond) {
    beyond_.release(block.beyond);
    unused_.push_back(&block);
    return;
  }
  used_ -= block.bytes;
  --held_blocks_;
  block.previous->next = block.next;
  block.next->previous = block.previous;
  if (block.is_obstacle) {
    obstacles_.remove(&block);
    ++orders_;
  }
  if (gaps_known_) ranges_.give(block.offset, block.bytes);
  if (kind == Kind::stray) unused_.push_back(&block);
}

void ArenaPlanner::release_kept(ArenaBlock& block) noexcept {
  used_ -= block.bytes;
  kept_[static_cast<size_t>(block.program)].free.push_back(&block);
}

// ---- What is in the way

// A buffer that should be gone from where request `i` goes, or null. What is found is known to all
// requests from here on.
ArenaBlock* ArenaPlanner::in_the_way(ExpectedProgram& program, int64_t i, bool late) {
  const ArenaBlock& block = program.block(i);
  ArenaBlock* found = nullptr;
  for (int32_t before : program.before_of(program.request(i))) {
    ArenaBlock& other = program.block(before);
    if (other.kind == Kind::none) continue;
    if (!other.is_obstacle) obstacles_.add(&other);
    found = &other;
  }
  if (found == nullptr && !obstacles_.empty())
    found = obstacles_.overlapping(block.offset, block.bytes);
  if (found == nullptr && late) found = overlapping_held(block);
  return found;
}

ArenaBlock* ArenaPlanner::overlapping_held(const ArenaBlock& block) const {
  for (ArenaBlock* held = held_.next; held != &held_; held = held->next)
    if (held->offset < block.offset + block.bytes && block.offset < held->offset + held->bytes)
      return held;
  return nullptr;
}

// Requests that did not come: nobody looked for what would have been in their way, and those that
// take over from them look for nobody else.
void ArenaPlanner::pass_over(ExpectedProgram& program, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; ++i)
    for (int32_t before : program.before_of(program.request(i))) {
      ArenaBlock& block = program.block(before);
      if (block.kind != Kind::none && !block.is_obstacle) obstacles_.add(&block);
    }
  ++orders_;
}

// All that is held at this time of the program as the plan has it will be looked for; the rest is
// an obstacle.
void ArenaPlanner::settle(int64_t time) noexcept {
  ++orders_;
  obstacles_.clear();
  auto program = static_cast<int32_t>(now_.program - programs_.data());
  for (ArenaBlock* held = held_.next; held != &held_; held = held->next)
    if (held->kind != Kind::planned || held->program != program || held->birth >= time ||
        held->death <= time)
      obstacles_.add_last(held);
  obstacles_.sort();
}

// ---- Where the program is

void ArenaPlanner::begin_step() { step_ = true; }

void ArenaPlanner::end_step() noexcept {
  step_ = false;
  if (!now_.announced) leave();
}

void ArenaPlanner::begin_section(const Section& section) {
  if (now_.announced) {
    around_.push_back(now_);
    around_.back().part = is_planned_here(section);
    if (around_.back().part) return;
  }
  run_known_ = false;
  enter(section);
}

void ArenaPlanner::end_section() noexcept {
  const bool part = !around_.empty() && around_.back().part;
  run_known_ = run_known_ && part;
  if (around_.empty()) return leave();
  Place outer = around_.back();
  around_.pop_back();
  if (part) return;
  now_ = outer;
  gaps_known_ = false;
  if (now_.cursor) settle(now_.cursor.high());
}

bool ArenaPlanner::is_planned_here(const Section& nested) const {
  if (!now_.cursor) return false;
  for (const ExpectedSection& section : now_.program->sections)
    if (section.begin <= now_.cursor.high() && now_.cursor.high() <= section.end &&
        std::ranges::find(section.planned->nested, nested) != section.planned->nested.end())
      return true;
  return false;
}

// Out of all sections. What a step holds from one to the next is still its program's.
void ArenaPlanner::leave() noexcept {
  gaps_known_ = false;
  now_ = {.program = step_ ? now_.program : nullptr};
}

void ArenaPlanner::enter(const Section& section) {
  auto try_program = [&](ExpectedProgram& program, bool first) {
    for (const ExpectedSection& own : program.sections) {
      if (own.planned->section == section) {
        enter(program, own.body, own.end);
        now_.announced = true;
        return true;
      }
      if (first) break;
    }
    return false;
  };
  if (now_.program != nullptr && now_.program != &programs_.front() &&
      try_program(*now_.program, false))
    return;
  auto known = std::span(programs_).subspan(programs_.empty() ? 0 : 1);
  for (bool first : {true, false})
    for (ExpectedProgram& program : known)
      if (program.step == step_ && try_program(program, first)) return;
  for (ExpectedProgram& program : known)
    if (try_program(program, true)) return;
  now_.cursor = {};
  now_.announced = true;
}

void ArenaPlanner::enter(ExpectedProgram& program, int64_t begin, int64_t end) {
  now_ = {.program = &program, .cursor = Cursor(program, *plan_, begin, end, ++entered_)};
  gaps_known_ = false;
  settle(begin);
}

// What a program asks for before it says which one it is: a batch, say.
bool ArenaPlanner::enter_preamble(const Request& request) {
  bool in_setup = now_.program == programs_.data() && now_.cursor;
  if (now_.announced || (in_setup && now_.cursor.high() < now_.program->size())) return false;
  ExpectedProgram* own = in_setup ? nullptr : now_.program;
  for (bool of_step : {true, false})
    for (ExpectedProgram& program : programs_) {
      if (&program == programs_.data() || (&program == own) != of_step) continue;
      for (const ExpectedSection& section : program.sections) {
        if (section.body > section.begin && expects(program, section.begin, request)) {
          enter(program, section.begin, section.body);
          return true;
        }
        if (!of_step) break;
      }
    }
  return false;
}

bool ArenaPlanner::expects(ExpectedProgram& program, int64_t i, const Request& request) const {
  const Expected& expected = program.request(i);
  return expected.bytes == request.bytes &&
         plan_->sites[static_cast<size_t>(expected.site)].op == request.site->op;
}

// In a section that the plan does not know. Between sections, kept bytes go on being looked for.
bool ArenaPlanner::is_unplanned() const { return now_.announced && !now_.cursor; }

void ArenaPlanner::find_gaps() {
  ranges_.clear();
  ranges_.reserve(held_blocks_ + 2);
  int64_t top = plan_->kept_bytes;
  for (auto [from, to] : held_ranges()) {
    if (from > top) ranges_.give(top, from - top);
    top = to;
  }
  gaps_known_ = true;
}

// ---- Streams

void ArenaPlanner::note_stream(int stream) {
  if (streams_.empty() && stream == 0) return;
  streams_.try_emplace(0, 0);
  streams_.try_emplace(stream, 0);
}

void ArenaPlanner::order(ExpectedProgram& program, const Expected& expected, int stream) {
  // Of bytes that nobody had in this section it is not known who had them last.
  if (streams_[stream] != orders_) return order_after_all(stream);
  for (int32_t before : program.before_of(expected))
    source().wait(stream, program.block(before).stream);
}

void ArenaPlanner::order_after_all(int stream) {
  for (const auto& [other, ordered] : streams_) source().wait(stream, other);
  streams_[stream] = orders_;
}

}  // namespace brim::memory
