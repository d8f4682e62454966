#include "brim/memory/pinned_source.h"

#include <utility>

#include "brim/base/cuda/memory.h"
#include "brim/memory/account.h"

namespace brim::memory {

void* PinnedSource::take(int64_t bytes) { return cuda::allocate_pinned(device_, bytes); }

void PinnedSource::give_back(void* address, int64_t) noexcept {
  cuda::free_pinned(device_, address);
}

std::shared_ptr<Account> pinned_account(Device device, int64_t capacity, const std::string& planner,
                                        std::shared_ptr<StreamOrder> order) {
  auto source = std::make_unique<PinnedSource>(device, capacity);
  if (order != nullptr) source->set_stream_order(std::move(order));
  return std::make_shared<Account>(Device::cpu(), std::move(source), planner_named(planner));
}

}  // namespace brim::memory
