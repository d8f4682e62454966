// A planner of one's own: written, used, checked, and broken on purpose.
#include <cstdio>
#include <set>
#include <string>

#include "brim/memory/account.h"
#include "brim/memory/conformance.h"
#include "brim/memory/out_of_memory.h"

using namespace brim;
using namespace brim::memory;

// [planner]
/// One piece of the source, handed out from the bottom; free again when all of it was released.
/// Enough for a program that works in rounds.
class RoundPlanner : public Planner {
 public:
  RoundPlanner(Source& source, int64_t bytes)
      : Planner(source), base_(static_cast<char*>(source.allocate(bytes))), bytes_(bytes) {}
  ~RoundPlanner() override {
    if (base_ != nullptr) source().deallocate(base_, bytes_);
  }

  std::string_view name() const override { return "round"; }

  Placement place(const Request& request) override {
    if (base_ == nullptr || request.bytes > bytes_ - top_) return {};
    streams_.insert(request.stream);
    char* address = base_ + top_;
    top_ += request.bytes;
    live_ += request.bytes;
    return {address, reinterpret_cast<void*>(request.bytes)};
  }

  void release(const Placement& placement) noexcept override {
    live_ -= reinterpret_cast<intptr_t>(placement.token);
    if (live_ == 0) end_round();
  }

  int64_t cached() const override { return base_ == nullptr ? 0 : bytes_ - live_; }

 protected:
  virtual void end_round() noexcept {
    for (int stream : streams_) source().finish(stream);  // the next round may be another stream's
    streams_.clear();
    top_ = 0;
  }

  char* base_;
  int64_t bytes_, top_ = 0, live_ = 0;
  std::set<int> streams_;  // that were given bytes in this round
};

MakePlanner round_planner(int64_t bytes) {
  return [bytes](Source& source) { return std::make_unique<RoundPlanner>(source, bytes); };
}
// [/planner]

// [hasty]
class HastyPlanner final : public RoundPlanner {
 public:
  using RoundPlanner::RoundPlanner;

 private:
  void end_round() noexcept override { top_ = 0; }  // and what of the work that is under way?
};
// [/hasty]

namespace {

void use() {
  // [use]
  Account account(Device::cpu(), std::make_unique<HostSource>(), round_planner(1 << 20));
  Block block = account.allocate(1000, Category::input);
  check(account.stats().live == 1024, "rounded up to 64");
  check(account.stats().cached == (1 << 20) - 1024, "what the planner says");
  account.release(block);
  // [/use]
  account.fail_nth(1);  // the planner knows nothing of this
  try {
    account.allocate(64, Category::other);
    check(false, "not reached");
  } catch (const OutOfMemory& error) {
    check(error.shortage().injected, "by the account");
  }
}

void conform() {
  // [conform]
  check_planner(round_planner(1 << 20), {.empties = false});
  // [/conform]
}

void break_it() {
  auto hasty = [](Source& source) { return std::make_unique<HastyPlanner>(source, 1 << 20); };
  // [breach]
  try {
    check_planner(hasty, {.empties = false});
    check(false, "not reached");
  } catch (const ConformanceError& error) {
    std::string text = error.what();
    check(text.find("conformance: the round planner placed ") == 0, "who");
    check(text.find(" is not done, and did not wait") != std::string::npos, "what");
  }
  // [/breach]
}

void overlap() {
  /// Whoever asks gets the same bytes.
  class SamePlanner final : public RoundPlanner {
   public:
    using RoundPlanner::RoundPlanner;
    Placement place(const Request& request) override {
      top_ = 0;
      return RoundPlanner::place(request);
    }
  };
  auto same = [](Source& source) { return std::make_unique<SamePlanner>(source, 1 << 20); };
  // [checking]
  Account account(Device::cpu(), std::make_unique<HostSource>(), same);
  account.set_checking(true);
  Block weights = account.allocate(1000, Category::parameters);
  try {
    account.allocate(64, Category::gradients);
    check(false, "not reached");
  } catch (const InternalError& error) {
    std::puts(error.what());
  }
  account.release(weights);
  // [/checking]
}

}  // namespace

int main() {
  use();
  conform();
  break_it();
  overlap();
}
