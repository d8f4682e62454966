#include "brim/memory/pinned_source.h"

#include "brim/base/cuda/memory.h"
#include "brim/memory/account.h"

namespace brim::memory {

void* PinnedSource::take(int64_t bytes) { return cuda::allocate_pinned(bytes); }

void PinnedSource::give_back(void* address, int64_t) noexcept { cuda::free_pinned(address); }

std::shared_ptr<Account> pinned_account(int64_t capacity, const std::string& planner) {
  return std::make_shared<Account>(Device::cpu(), std::make_unique<PinnedSource>(capacity),
                                   planner_named(planner));
}

}  // namespace brim::memory
