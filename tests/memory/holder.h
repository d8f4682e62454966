// An account with blocks whose bytes and notes are known, for tests of moves between planners. For
// a training's requests in place of some blocks see tests/support/memory_script.h.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brim/memory/account.h"
#include "brim/memory/plan/plan.h"

namespace brim::testing {

inline constexpr int64_t kMiB = 1 << 20;

/// An account with some blocks of different sizes, whose bytes differ, some of them released.
class Holder {
 public:
  explicit Holder(
      const memory::MakePlanner& make_planner,
      std::unique_ptr<memory::Source> source = std::make_unique<memory::HostSource>(64 * kMiB))
      : account(Device::cpu(), std::move(source), make_planner) {
    account.set_checking(true);
    for (int64_t i = 0; i < 24; ++i) hold(i % 6 == 0 ? i * 50'000 + 64 : i * 1000 + 1);
    for (size_t i = 20; i > 0; i -= 4) release(i);
  }
  ~Holder() {
    while (!blocks.empty()) release(blocks.size() - 1);
  }

  void hold(int64_t bytes) {
    auto category = static_cast<memory::Category>(blocks.size() % memory::kCategories);
    memory::SiteScope site({.op = "held", .line = static_cast<uint32_t>(bytes)});
    memory::BufferShape shape{.sizes = {bytes}, .dims = 1, .dtype = "uint8"};
    memory::Block block = account.allocate(bytes, category, shape);
    std::memset(block.address(), mark(block), static_cast<size_t>(block.bytes));
    blocks.push_back(block);
  }
  void release(size_t i) {
    account.release(blocks[i]);
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
  }
  bool values_are_there() const {
    for (const memory::Block& block : blocks) {
      const auto* bytes = static_cast<const unsigned char*>(block.address());
      for (int64_t i = 0; i < block.bytes; ++i)
        if (bytes[i] != mark(block)) return false;
    }
    return true;
  }
  /// All that is noted of what is held, in order, but for the addresses.
  std::vector<std::string> notes() const {
    std::vector<std::string> all;
    account.for_each_live([&](const memory::LiveBuffer& buffer) {
      all.push_back(std::to_string(buffer.id) + to_string(buffer) + " on " +
                    std::to_string(buffer.stream) + ":" + std::to_string(buffer.site.line));
    });
    return all;
  }
  bool adds_up() const {
    memory::AccountStats s = account.stats();
    return s.reserved == s.live + s.cached + s.fragmented;
  }

  memory::Account account;
  std::vector<memory::Block> blocks;

 private:
  static int mark(const memory::Block& block) { return static_cast<int>(block.id * 37 % 251); }
};

/// One that has a place for everything that a Holder holds, and one more.
inline std::shared_ptr<const memory::Plan> plan_for(const Holder& holder) {
  auto plan = std::make_shared<memory::Plan>(memory::make_plan({}));
  std::map<int64_t, int64_t> counts{{4096, 1}};
  for (const memory::Block& block : holder.blocks) ++counts[block.bytes];
  for (auto [bytes, count] : counts) {
    plan->kept.push_back({.bytes = bytes, .count = count, .offset = plan->kept_bytes});
    plan->kept_bytes += bytes * count;
  }
  plan->arena_bytes = plan->kept_bytes;
  return plan;
}

}  // namespace brim::testing
