#include "brim/memory/account.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "brim/base/bytes.h"
#include "brim/base/error.h"
#include "brim/base/nearest.h"
#include "brim/memory/caching_planner.h"
#include "brim/memory/cuda_source.h"
#include "brim/memory/direct_planner.h"
#include "brim/memory/live_at_exit.h"
#include "brim/memory/live_ranges.h"
#include "brim/memory/out_of_memory.h"
#include "brim/memory/reclaimer.h"
#include "brim/memory/relocation.h"
#include "brim/memory/stream.h"

namespace brim::memory {
namespace {
constexpr const char* kIdentity = "reserved bytes are live, cached and fragmented ones";

std::unique_ptr<Planner> direct_planner(Source& source) {
  return std::make_unique<DirectPlanner>(source);
}
}  // namespace

MakePlanner planner_named(const std::string& name) {
  if (name == "direct") return direct_planner;
  if (name == "caching")
    return [](Source& source) { return std::make_unique<CachingPlanner>(source); };
  const std::vector<std::string> known{"direct", "caching"};
  raise<ValueError>("planner", "expected direct or caching, got '{}'{}", name,
                    did_you_mean(name, known));
}

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

void Account::replan(const MakePlanner& make_planner) {
  std::lock_guard lock(mutex_);
  expect<ValueError>(steps_ == 0 && sections_.empty(), "replan",
                     "expected to be between steps and sections, {} steps and {} sections run",
                     steps_, sections_.size());
  check_identity();
  MakePlanner next = make_planner;
  Relocation relocation(*source_, buffers_);  // the last that may fail with nothing changed
  const int64_t mismatches = mismatches_before_ + planner_->mismatches();
  relocation.leave(*planner_);
  planner_.reset();
  std::exception_ptr failure = settle(next, relocation);
  bool placed = failure == nullptr;
  if (placed)
    make_planner_.swap(next);
  else
    placed = settle(make_planner_, relocation) == nullptr || settle_beyond_cap(relocation);
  // Those of a planner that only takes the place of the one before are not the program's.
  mismatches_before_ = mismatches - (failure == nullptr ? 0 : planner_->mismatches());
  if (!placed) lose_values();
  if (ranges_ != nullptr) ranges_->rekey();
  if (recorder_ != nullptr) recorder_->moved();
  relocation.copy_back();
  if (failure != nullptr) std::rethrow_exception(failure);
  check_identity();
}

/// Makes the planner and places all that is held. Returns what went wrong; nothing is held of the
/// source then.
std::exception_ptr Account::settle(const MakePlanner& make_planner,
                                   Relocation& relocation) noexcept {
  std::exception_ptr failure;
  try {
    planner_ = make_planner(*source_);
    check(planner_ != nullptr, "a planner is made");
    const LiveBuffer* refused = relocation.enter(*planner_);
    if (refused == nullptr) return nullptr;
    Shortage s = shortage();
    s.requested = refused->bytes;
    s.category = refused->category;
    s.shape = refused->shape;
    s.site = refused->site;
    raise_shortage(std::move(s), buffers_);
  } catch (...) {
    failure = std::current_exception();
  }
  if (planner_ != nullptr) relocation.leave(*planner_);
  planner_.reset();
  return failure;
}

/// As many bytes as were just given back, each piece by itself. False where not even they are
/// there.
bool Account::settle_beyond_cap(Relocation& relocation) noexcept {
  const int64_t cap = source_->capacity();
  source_->set_capacity(Source::kUnlimited);
  planner_ = relocation.take_last_resort();
  make_planner_ = direct_planner;
  bool placed = false;
  try {
    placed = relocation.enter(*planner_) == nullptr;
  } catch (...) {  // the device: what it says, `lose_values` says
  }
  if (!placed) relocation.leave(*planner_);
  source_->set_capacity(cap);
  return placed;
}

void Account::lose_values() {
  breach_ = "what is held has its bytes";
  ranges_.reset();
  raise<DeviceError>("replan", "the system no longer gives the {} bytes that were held on {}",
                     live_, to_string(device_));
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

void Account::begin_step() {
  std::lock_guard lock(mutex_);
  planner_->begin_step();
  try {
    check_identity();  // a planner may take and give back bytes here
    if (recorder_ != nullptr) recorder_->began_step();
  } catch (...) {
    planner_->end_step();
    throw;
  }
  ++steps_;
}

void Account::end_step() noexcept {
  std::lock_guard lock(mutex_);
  steps_ = std::max(steps_ - 1, 0);
  planner_->end_step();
  note_identity();
  if (recorder_ != nullptr) recorder_->ended_step();
}

void Account::begin_section(const Section& section) {
  std::lock_guard lock(mutex_);
  sections_.reserve(sections_.size() + 1);
  planner_->begin_section(section);
  try {
    check_identity();
    if (recorder_ != nullptr) recorder_->began_section(section);
  } catch (...) {
    planner_->end_section();
    throw;
  }
  sections_.push_back(section);
}

void Account::end_section() noexcept {
  std::lock_guard lock(mutex_);
  if (!sections_.empty()) sections_.pop_back();
  planner_->end_section();
  note_identity();
  if (recorder_ != nullptr) recorder_->ended_section();
}

void Account::for_each_live(const std::function<void(const LiveBuffer&)>& body) const {
  std::lock_guard lock(mutex_);
  for (const LiveBuffer* buffer = buffers_.first(); buffer != nullptr; buffer = buffer->next)
    body(*buffer);
}

SectionScope::SectionScope(std::shared_ptr<Account> account, const Section& section)
    : account_(std::move(account)) {
  account_->begin_section(section);
}

SectionScope::~SectionScope() { account_->end_section(); }

namespace {

std::shared_ptr<Account> caching_account(Device device, std::unique_ptr<Source> source) {
  return std::make_shared<Account>(device, std::move(source), planner_named("caching"));
}

std::shared_ptr<Account>& gpu_slot(Device device) {
  static std::mutex mutex;
  static auto* accounts = new std::map<int, std::shared_ptr<Account>>;
  std::lock_guard lock(mutex);
  auto found = accounts->find(device.index);
  if (found == accounts->end()) {
    auto made = caching_account(device, std::make_unique<CudaSource>(device));
    found = accounts->emplace(device.index, report_at_exit_if_asked(std::move(made))).first;
  }
  return found->second;
}

std::shared_ptr<Account>& slot(Device device) {
  // Never destroyed: tensors may outlive every static object.
  static auto* cpu = new auto(
      report_at_exit_if_asked(caching_account(Device::cpu(), std::make_unique<HostSource>())));
  static auto* meta = new auto(caching_account(Device::meta(), std::make_unique<NullSource>()));
  switch (device.type) {
    case DeviceType::cpu:
      return *cpu;
    case DeviceType::meta:
      return *meta;
    case DeviceType::cuda:
      return gpu_slot(device);
  }
  raise<InternalError>("memory", "unknown device {}", to_string(device));
}

}  // namespace

std::shared_ptr<Account> account(Device device) { return slot(device); }

AccountScope::AccountScope(std::shared_ptr<Account> account) : before_(std::move(account)) {
  std::swap(slot(before_->device()), before_);
}

AccountScope::~AccountScope() { std::swap(slot(before_->device()), before_); }

std::shared_ptr<Account> capped_host_account(const std::string& planner, int64_t capacity) {
  return std::make_shared<Account>(Device::cpu(), std::make_unique<HostSource>(capacity),
                                   planner_named(planner));
}

void raise_library_shortage(Device device) { account(device)->raise_library_shortage(); }

}  // namespace brim::memory
