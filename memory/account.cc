#include "brim/memory/account.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "brim/base/bytes.h"
#include "brim/base/error.h"
#include "brim/base/stop.h"
#include "brim/memory/live_ranges.h"
#include "brim/memory/out_of_memory.h"
#include "brim/memory/reclaimer.h"
#include "brim/memory/stream.h"

namespace brim::memory {
namespace {
constexpr const char* kIdentity = "reserved bytes are live, cached and fragmented ones";
}  // namespace

Account::Account(Device device, std::unique_ptr<Source> source, const MakePlanner& make_planner)
    : device_(device),
      source_(std::move(source)),
      make_planner_(make_planner),
      planner_(make_planner_(*source_)) {
#ifndef NDEBUG
  set_checking(true);
#endif
}

Account::~Account() = default;

Block Account::allocate(int64_t bytes, Category category, const BufferShape& shape) {
  check(bytes >= 0, "an allocation is not negative");
  stop_if_asked();
  if (bytes == 0) return {.category = category};
  std::unique_lock lock(mutex_);
  const auto id = static_cast<uint64_t>(++requests_);
  // Beyond this, rounding up to a size class may overflow.
  Request request{
      .bytes = bytes, .category = category, .stream = current_stream(), .site = &current_site()};
  if (bytes > Source::kUnlimited / 2) refuse(request, shape, {});
  request.bytes = round_up(bytes, kAlignment);
  const bool injected = fail_in_ > 0 && --fail_in_ == 0;
  Block block = note(id, place(request, shape, injected, lock), request, shape);
  try {
    check_placement(block, request);
    check_identity();
    if (recorder_ != nullptr) recorder_->allocated(block);
  } catch (...) {
    give_back(block);
    throw;
  }
  note_peak_live();
  return block;
}

/// `lock` is open while someone frees bytes.
Placement Account::place(const Request& request, const BufferShape& shape, bool injected,
                         std::unique_lock<std::mutex>& lock) {
  Reclaimer* reclaimer = ReclaimerScope::of(*this);
  const int64_t limit = reclaimer == nullptr ? Source::kUnlimited : reclaimer->limit();
  while (true) {
    const int64_t over = live_ - (limit - request.bytes);
    if (!injected && over <= 0) {
      buffers_.reserve();  // may fail, so before there is a placement
      Placement placement = planner_->place(request);
      if (placement.address != nullptr) return placement;
      check_identity();
    }
    bool has_freed = false;
    if (reclaimer != nullptr) {
      lock.unlock();
      has_freed = ReclaimerScope::ask(*reclaimer, *this, std::max<int64_t>(over, 1));
      lock.lock();
    }
    if (!has_freed) refuse(request, shape, {.injected = injected, .live_limit = limit});
    injected = false;
  }
}

void Account::check_placement(const Block& block, const Request& request) {
  auto address = reinterpret_cast<uintptr_t>(block.address());
  if (address % static_cast<uintptr_t>(request.alignment) != 0)
    raise<InternalError>("memory",
                         "the {} planner placed {} bytes at {:#x}, off a {}-byte boundary",
                         planner_->name(), block.bytes, address, request.alignment);
  if (ranges_ != nullptr) ranges_->add(*block.live, planner_->name());
}

Block Account::note(uint64_t id, const Placement& placement, const Request& request,
                    const BufferShape& shape) {
  LiveBuffer* buffer = buffers_.add();
  buffer->id = id;
  buffer->address = placement.address;
  buffer->token = placement.token;
  buffer->bytes = request.bytes;
  buffer->category = request.category;
  buffer->stream = request.stream;
  buffer->site = *request.site;
  buffer->shape = shape;
  live_ += request.bytes;
  by_category_[static_cast<size_t>(request.category)] += request.bytes;
  return {request.bytes, request.category, buffer, buffer->id};
}

void Account::give_back(const Block& block) noexcept {
  live_ -= block.bytes;
  by_category_[static_cast<size_t>(block.category)] -= block.bytes;
  if (ranges_ != nullptr) ranges_->remove(*block.live);
  if (block.live->address != nullptr) planner_->release({block.live->address, block.live->token});
  buffers_.remove(block.live);
}

void Account::release(const Block& block) noexcept {
  if (block.bytes == 0) return;
  std::lock_guard lock(mutex_);
  if (ranges_ != nullptr &&
      (block.live->id != block.id || !ranges_->holds(block.address(), block.live))) {
    breach_ = "a block that was released was held";
    return;
  }
  if (recorder_ != nullptr) recorder_->released(block);
  give_back(block);
  note_identity();
}

void Account::recategorize(Block& block, Category category) noexcept {
  if (block.bytes == 0) {
    block.category = category;
    return;
  }
  std::lock_guard lock(mutex_);
  by_category_[static_cast<size_t>(block.category)] -= block.bytes;
  by_category_[static_cast<size_t>(category)] += block.bytes;
  std::swap(block.category, category);
  block.live->category = block.category;
  if (recorder_ != nullptr) recorder_->recategorized(block, category);
}

Shortage Account::shortage() const {
  std::optional<Section> section;
  if (!sections_.empty()) section = sections_.back();
  return {.device = device_,
          .total = source_->capacity(),
          .live = live_,
          .cached = planner_->cached(),
          .fragmented = planner_->fragmented(),
          .free = std::max<int64_t>(source_->capacity() - source_->used(), 0),
          .largest_hole = planner_->stats().largest_free,
          .by_category = by_category_,
          .site = current_site(),
          .section = section};
}

void Account::refuse(const Request& request, const BufferShape& shape,
                     const Refusal& refusal) const {
  Shortage s = shortage();
  s.requested = request.bytes;
  s.category = request.category;
  s.shape = shape;
  s.injected = refusal.injected;
  s.live_limit = refusal.live_limit;
  raise_shortage(std::move(s), buffers_);
}

void Account::raise_library_shortage() const {
  std::lock_guard lock(mutex_);
  Shortage s = shortage();
  s.category = Category::scratch;
  raise_shortage(std::move(s), buffers_);
}

bool Account::identity_holds() const {
  return planner_->reserved() == live_ + planner_->cached() + planner_->fragmented();
}

void Account::check_identity() const {
  check(breach_ == nullptr, breach_);
  check(identity_holds(), kIdentity);
}

void Account::note_identity() noexcept {
  if (breach_ == nullptr && !identity_holds()) breach_ = kIdentity;
}

void Account::note_peak_live() {
  if (live_ <= peak_live_) return;
  peak_live_ = live_;
  by_category_at_peak_ = by_category_;
}

void Account::set_site(const Block& block, const Site& site) noexcept {
  if (block.bytes == 0) return;
  std::lock_guard lock(mutex_);
  block.live->site = site;
  if (recorder_ != nullptr) recorder_->resited(block);
}

AccountStats Account::stats() const {
  std::lock_guard lock(mutex_);
  return {.live = live_,
          .cached = planner_->cached(),
          .fragmented = planner_->fragmented(),
          .reserved = planner_->reserved(),
          .peak_live = peak_live_,
          .peak_reserved = source_->peak(),
          .requests = requests_,
          .mismatches = mismatches_before_ + planner_->mismatches(),
          .by_category = by_category_,
          .by_category_at_peak = by_category_at_peak_};
}

PlannerStats Account::planner_stats() const {
  std::lock_guard lock(mutex_);
  return planner_->stats();
}

std::string Account::mismatch_report() const {
  std::lock_guard lock(mutex_);
  return planner_->mismatch_report();
}

std::string Account::planner_name() const {
  std::lock_guard lock(mutex_);
  return std::string(planner_->name());
}

bool Account::reserves_steps() const {
  std::lock_guard lock(mutex_);
  return planner_->reserves_steps();
}

std::shared_ptr<const Plan> Account::plan() const {
  std::lock_guard lock(mutex_);
  return planner_->plan();
}

void Account::set_cap(int64_t bytes) {
  std::lock_guard lock(mutex_);
  source_->set_capacity(bytes);
}

int64_t Account::cap() const {
  std::lock_guard lock(mutex_);
  return source_->capacity();
}

void Account::fail_nth(int64_t n) {
  std::lock_guard lock(mutex_);
  fail_in_ = n;
}

void Account::reset_peak() {
  std::lock_guard lock(mutex_);
  peak_live_ = live_;
  source_->reset_peak();
  by_category_at_peak_ = by_category_;
}

void Account::empty_cache() {
  std::lock_guard lock(mutex_);
  planner_->empty_cache();
  check_identity();
}

void Account::set_checking(bool on) {
  std::lock_guard lock(mutex_);
  ranges_.reset();
  if (!on) return;
  auto ranges = std::make_unique<LiveRanges>();
  for (const LiveBuffer* buffer = buffers_.first(); buffer != nullptr; buffer = buffer->next)
    ranges->add(*buffer, planner_->name());
  ranges_ = std::move(ranges);
}

bool Account::checking() const {
  std::lock_guard lock(mutex_);
  return ranges_ != nullptr;
}

void Account::set_recorder(Recorder* recorder) {
  std::lock_guard lock(mutex_);
  recorder_ = recorder;
}

void Account::for_each_live(const std::function<void(const LiveBuffer&)>& body) const {
  std::lock_guard lock(mutex_);
  for (const LiveBuffer* buffer = buffers_.first(); buffer != nullptr; buffer = buffer->next)
    body(*buffer);
}

}  // namespace brim::memory
