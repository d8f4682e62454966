// A planner of one's own.
#include <vector>

#include "brim/memory/account.h"
#include "brim/memory/out_of_memory.h"

using namespace brim;
using namespace brim::memory;

// [planner]
/// One buffer, handed out from the bottom; free again when all of it was released. Enough for a
/// program that works in rounds.
class RoundPlanner final : public Planner {
 public:
  RoundPlanner(Source& source, int64_t bytes)
      : Planner(source), base_(static_cast<char*>(source.allocate(bytes))), bytes_(bytes) {}
  ~RoundPlanner() override {
    if (base_ != nullptr) source().deallocate(base_, bytes_);
  }

  std::string_view name() const override { return "round"; }
  Placement place(const Request& request) override {
    if (base_ == nullptr || request.bytes > bytes_ - top_) return {};
    char* address = base_ + top_;
    top_ += request.bytes;
    live_ += request.bytes;
    return {address, reinterpret_cast<void*>(request.bytes)};
  }
  void release(const Placement& placement) noexcept override {
    live_ -= reinterpret_cast<intptr_t>(placement.token);
    if (live_ == 0) top_ = 0;
  }
  int64_t cached() const override { return base_ == nullptr ? 0 : bytes_ - live_; }

 private:
  char* base_;
  int64_t bytes_, top_ = 0, live_ = 0;
};
// [/planner]

int main() {
  // [use-planner]
  Account account(Device::cpu(), std::make_unique<HostSource>(),
                  [](Source& source) { return std::make_unique<RoundPlanner>(source, 1 << 20); });
  // [/use-planner]
  Block block = account.allocate(1000, Category::input);
  check(account.stats().live == 1024 && account.stats().cached == (1 << 20) - 1024, "as always");
  account.release(block);
  account.fail_nth(1);  // the planner knows nothing of this
  try {
    account.allocate(64, Category::other);
    return 1;
  } catch (const OutOfMemory&) {
    return 0;
  }
}
