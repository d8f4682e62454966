#include "brim/memory/reclaimer.h"

namespace brim::memory {
namespace {

thread_local ReclaimerScope* innermost = nullptr;
thread_local bool at_work = false;

class AtWork {
 public:
  AtWork() { at_work = true; }
  ~AtWork() { at_work = false; }
};

}  // namespace

ReclaimerScope::ReclaimerScope(const Account& account, Reclaimer* reclaimer)
    : account_(account), reclaimer_(reclaimer), before_(innermost) {
  innermost = this;
}

ReclaimerScope::~ReclaimerScope() { innermost = before_; }

Reclaimer* ReclaimerScope::of(const Account& account) {
  if (at_work) return nullptr;
  for (const ReclaimerScope* scope = innermost; scope != nullptr; scope = scope->before_)
    if (&scope->account_ == &account) return scope->reclaimer_;
  return nullptr;
}

bool ReclaimerScope::ask(Reclaimer& reclaimer, const Account& account, int64_t bytes) {
  AtWork working;
  return reclaimer.reclaim(account, bytes);
}

}  // namespace brim::memory
