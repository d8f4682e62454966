// `Account::replan`: what an account holds moves to another planner.
#include <exception>
#include <utility>

#include "brim/base/error.h"
#include "brim/memory/account.h"
#include "brim/memory/direct_planner.h"
#include "brim/memory/live_ranges.h"
#include "brim/memory/out_of_memory.h"
#include "brim/memory/relocation.h"

namespace brim::memory {

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
                     live_, device_);
}

}  // namespace brim::memory
