// Someone who frees bytes before a request is refused, of what can be made again when it is wanted
// (autograd/dynamic_eviction.h). `Account::allocate` asks it on the thread of the request, outside
// of the account's lock, so that it may release blocks, and again until the request is served or
// nothing more is freed. Requests that it makes itself are served as if there were none. Not for
// caches of a planner, which the planner gives back by itself.
#pragma once

#include <cstdint>

#include "brim/memory/source.h"

namespace brim::memory {

class Account;

class Reclaimer {
 public:
  virtual ~Reclaimer() = default;
  /// Live bytes of the account that no request may go beyond: it is asked before one does.
  virtual int64_t limit() const { return Source::kUnlimited; }
  /// Releases `bytes` or more of what lives in `account`, or as much as it can. False where that
  /// was nothing: the request is refused then.
  virtual bool reclaim(const Account& account, int64_t bytes) = 0;
};

/// Asks `reclaimer` for requests of this thread to `account` until the scope ends; null: nobody is
/// asked. Both must outlive it. Of nested scopes of an account the innermost counts.
class ReclaimerScope {
 public:
  ReclaimerScope(const Account& account, Reclaimer* reclaimer);
  ~ReclaimerScope();
  ReclaimerScope(const ReclaimerScope&) = delete;
  ReclaimerScope& operator=(const ReclaimerScope&) = delete;

  /// For the account: whom to ask for a request of this thread. Null for nobody, and while one is
  /// at work.
  static Reclaimer* of(const Account& account);
  /// Lets it work.
  static bool ask(Reclaimer& reclaimer, const Account& account, int64_t bytes);

 private:
  const Account& account_;
  Reclaimer* reclaimer_;
  ReclaimerScope* before_;
};

}  // namespace brim::memory
