#include "brim/memory/caching_planner.h"

#include <doctest/doctest.h>

#include <cmath>
#include <deque>
#include <vector>

#include "brim/base/random.h"
#include "brim/memory/account.h"
#include "brim/memory/out_of_memory.h"

using namespace brim;
using namespace brim::memory;

namespace {

constexpr int64_t kMiB = 1 << 20;

// Addresses that are never touched, the later the lower: as the system's mappings often are, and
// unlike the null source's.
class DescendingSource final : public Source {
  void* take(int64_t bytes) override {
    next_ -= static_cast<uintptr_t>(bytes);
    return reinterpret_cast<void*>(next_);
  }
  void give_back(void*, int64_t) noexcept override {}
  uintptr_t next_ = uintptr_t{1} << 46;
};

}  // namespace

TEST_CASE("the caching planner serves a steady pattern without asking the source again") {
  auto account = capped_host_account("caching");
  auto round = [&] {
    std::vector<Block> held;
    for (int64_t bytes : {100, 5000, 700'000, 3'000'000, 9'000'000})
      held.push_back(account->allocate(bytes, Category::activations));
    for (const Block& block : held) account->release(block);
  };
  round();
  int64_t reserved = account->stats().reserved;
  for (int i = 0; i < 100; ++i) round();
  CHECK(account->stats().reserved == reserved);
}

TEST_CASE("the caching planner splits and joins: freed neighbours serve a larger request") {
  auto account = capped_host_account("caching", 16 * kMiB);
  Block whole = account->allocate(16 * kMiB, Category::other);
  account->release(whole);
  Block left = account->allocate(8 * kMiB, Category::other);
  Block right = account->allocate(8 * kMiB, Category::other);
  account->release(left);
  account->release(right);
  CHECK(account->stats().cached == 16 * kMiB);
  Block again = account->allocate(16 * kMiB, Category::other);
  CHECK(account->stats().reserved == 16 * kMiB);
  account->release(again);
}

TEST_CASE("cached bytes go back to the source when another size needs the room") {
  auto account = capped_host_account("caching", 10 * kMiB);
  Block a = account->allocate(6 * kMiB, Category::other);
  account->release(a);
  Block b = account->allocate(9 * kMiB, Category::other);
  CHECK(account->stats().reserved == 9 * kMiB);
  account->release(b);
}

TEST_CASE("where the source puts segments changes nothing: reserved bytes are the same") {
  auto make = [](const std::string& kind) {
    std::unique_ptr<Source> source = std::make_unique<NullSource>();
    if (kind == "descending") source = std::make_unique<DescendingSource>();
    return std::make_shared<Account>(Device::meta(), std::move(source), planner_named("caching"));
  };
  std::shared_ptr<Account> accounts[] = {make("ascending"), make("descending")};

  // A and the rest of B are 1 MiB each: with B's rest taken, the last request needs a new segment.
  for (auto& account : accounts) {
    auto get = [&](int64_t mib) { return account->allocate(mib * kMiB, Category::other); };
    Block a = get(1), b = get(5);
    account->release(b);
    b = get(4);
    account->release(a);
    a = get(1);
    account->release(b);
    b = get(5);
    CHECK(account->stats().reserved == 6 * kMiB);
    account->release(a);
    account->release(b);
    account->empty_cache();
  }

  RandomStream random(RandomKey{11});
  std::deque<std::array<Block, 2>> held;
  for (int step = 0; step < 4000; ++step) {
    if (held.size() < 40 || random.uniform() < 0.5f) {
      auto bytes = static_cast<int64_t>(std::exp(random.uniform(6, 17)));
      held.push_back({accounts[0]->allocate(bytes, Category::other),
                      accounts[1]->allocate(bytes, Category::other)});
    } else {
      std::swap(held[random.below(held.size())], held.front());
      for (size_t i : {0u, 1u}) accounts[i]->release(held.front()[i]);
      held.pop_front();
    }
    REQUIRE(accounts[0]->stats().reserved == accounts[1]->stats().reserved);
  }
  for (auto& blocks : held)
    for (size_t i : {0u, 1u}) accounts[i]->release(blocks[i]);
}
