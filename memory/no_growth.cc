#include "brim/memory/no_growth.h"

#include <exception>

#include "brim/base/bytes.h"
#include "brim/memory/summary.h"

namespace brim::memory {

GrowthError::GrowthError(int64_t grown, std::vector<BufferInfo> buffers)
    : Error("no growth", fmt::format("{} ({} bytes) more are live than when the scope began; of "
                                     "what was made inside, it still holds {}",
                                     format_bytes(grown), grown, describe(buffers, /*most=*/10))),
      grown_(grown),
      buffers_(std::move(buffers)) {}

NoGrowth::NoGrowth(std::shared_ptr<Account> account)
    : account_(std::move(account)),
      before_(account_->stats()),
      exceptions_(std::uncaught_exceptions()) {}

NoGrowth::NoGrowth(Device device) : NoGrowth(account(device)) {}

NoGrowth::~NoGrowth() noexcept(false) {
  if (!failed_ && std::uncaught_exceptions() == exceptions_) check();
}

void NoGrowth::check() {
  int64_t grown = account_->stats().live - before_.live;
  if (grown <= 0) return;
  failed_ = true;
  std::vector<BufferInfo> made = memory_snapshot(*account_);
  auto older = [&](const BufferInfo& b) { return b.id <= static_cast<uint64_t>(before_.requests); };
  std::erase_if(made, older);
  throw GrowthError(grown, std::move(made));
}

}  // namespace brim::memory
