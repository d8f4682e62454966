// What an account, its planner and its recorder are told of the parts of a program.
#include <algorithm>
#include <utility>

#include "brim/memory/account.h"

namespace brim::memory {

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

SectionScope::SectionScope(std::shared_ptr<Account> account, const Section& section)
    : account_(std::move(account)) {
  account_->begin_section(section);
}

SectionScope::~SectionScope() { account_->end_section(); }

}  // namespace brim::memory
