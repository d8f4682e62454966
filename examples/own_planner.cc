// A planner of one's own decides where in memory a request goes; categories, peaks, limits and
// errors stay the account's. This one keeps what comes back, by its size. docs/writing_a_planner.md
// says more.
#include <cstdio>
#include <map>
#include <vector>

#include "brim/brim.h"

using namespace brim;

class BySize final : public memory::Planner {
 public:
  using Planner::Planner;
  ~BySize() override { empty_cache(); }
  std::string_view name() const override { return "by size"; }

  memory::Placement place(const memory::Request& request) override {
    std::vector<void*>& kept = kept_[request.bytes];
    void* address = nullptr;
    if (kept.empty()) {
      address = source().allocate(request.bytes);
    } else {
      address = kept.back();
      kept.pop_back();
      cached_ -= request.bytes;
    }
    return {address, reinterpret_cast<void*>(request.bytes)};
  }
  void release(const memory::Placement& placement) noexcept override {
    const auto bytes = reinterpret_cast<int64_t>(placement.token);
    kept_[bytes].push_back(placement.address);
    cached_ += bytes;
  }
  int64_t cached() const override { return cached_; }
  void empty_cache() noexcept override {
    for (auto& [bytes, kept] : kept_)
      for (void* address : kept) source().deallocate(address, bytes);
    kept_.clear();
    cached_ = 0;
  }

 private:
  std::map<int64_t, std::vector<void*>> kept_;
  int64_t cached_ = 0;
};

int main() {
  const auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(64 * MiB),
      [](memory::Source& source) { return std::make_unique<BySize>(source); });
  const memory::AccountScope scope(account);
  for (int round = 0; round < 3; ++round) {
    const Tensor x = ones({1000, 1000}), y = (2 * x + 1).sum(0);
    const memory::AccountStats stats = account->stats();
    std::printf("round %d: sum %.0f, live %s, cached %s, reserved %s\n", round,
                y.sum().item<double>(), format_bytes(stats.live).c_str(),
                format_bytes(stats.cached).c_str(), format_bytes(stats.reserved).c_str());
  }
}
