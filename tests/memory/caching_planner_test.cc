#include "brim/memory/caching_planner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <tuple>
#include <vector>

#include "brim/base/error.h"
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

TEST_CASE("once the source has refused, steps and evaluations begin without cached segments") {
  auto account = capped_host_account("caching", 16 * kMiB);
  auto use = [&](int64_t bytes) { account->release(account->allocate(bytes, Category::other)); };
  auto step = [&] {
    account->begin_step();
    int64_t cached = account->stats().cached;
    account->end_step();
    return cached;
  };
  auto section = [&](SectionKind kind) {
    SectionScope scope(account, {kind, 1});
    return account->stats().cached;
  };
  use(10 * kMiB);
  CHECK(step() == 10 * kMiB);  // there was room so far
  CHECK(section(SectionKind::evaluation) == 10 * kMiB);
  use(12 * kMiB);
  CHECK(account->stats().cached == 12 * kMiB);
  CHECK(section(SectionKind::first_micro_step) == 12 * kMiB);
  CHECK(section(SectionKind::evaluation) == 0);
  use(12 * kMiB);
  CHECK(step() == 0);
  Block held = account->allocate(kMiB, Category::parameters);
  use(4 * kMiB);
  CHECK(step() == 0);
  CHECK(account->stats().reserved == kMiB);  // what is held stays
  account->release(held);
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

TEST_CASE("size classes: eight in each power of two, none closer than 64 bytes") {
  CHECK(CachingPlanner::size_class(1) == 64);
  CHECK(CachingPlanner::size_class(960) == 960);
  CHECK(CachingPlanner::size_class(1025) == 1152);
  CHECK(CachingPlanner::size_class(1 << 20) == 1 << 20);
  CHECK(CachingPlanner::size_class((1 << 20) + 1) == (1 << 20) + (1 << 17));
  for (int64_t bytes = 64; bytes < int64_t{1} << 40; bytes = bytes * 17 / 16 + 64) {
    int64_t size = CachingPlanner::size_class(bytes);
    REQUIRE(size >= bytes);
    REQUIRE(size % kAlignment == 0);
    REQUIRE(CachingPlanner::size_class(size) == size);
    REQUIRE(size - bytes < std::max(kAlignment, bytes / 8));
  }
}

TEST_CASE("free blocks: the best is the smallest that fits, of equal ones the oldest segment's") {
  // Against a list that is searched from end to end.
  std::deque<CachedSegment> segments;
  std::deque<CachedBlock> blocks;
  std::vector<char> bytes(64 * 4000);
  FreeBlocks free(0, false);
  std::vector<CachedBlock*> inside;
  auto less = [](const CachedBlock* a, const CachedBlock* b) {
    return std::tuple(a->bytes, a->segment->number, a->address) <
           std::tuple(b->bytes, b->segment->number, b->address);
  };
  RandomStream random(RandomKey{3});
  for (int step = 0; step < 4000; ++step) {
    if (inside.empty() || random.uniform() < 0.55f) {
      segments.push_back({.number = static_cast<int64_t>(random.below(1000))});
      auto units = static_cast<int64_t>(std::exp(random.uniform(0, random.uniform(1, 20))));
      blocks.push_back({.address = bytes.data() + 64 * step,
                        .bytes = 64 * units,
                        .segment = &segments.back(),
                        .home = &free});
      free.insert(&blocks.back());
      inside.push_back(&blocks.back());
    } else {
      std::swap(inside[random.below(inside.size())], inside.back());
      free.remove(inside.back());
      inside.pop_back();
    }
    auto wanted = FreeBlocks::size_class(
        static_cast<int64_t>(std::exp(random.uniform(0, random.uniform(1, 25)))));
    CachedBlock* best = nullptr;
    for (CachedBlock* block : inside)
      if (block->bytes >= wanted && (best == nullptr || less(block, best))) best = block;
    REQUIRE(free.best(wanted) == best);
    REQUIRE(free.empty() == inside.empty());
  }
}

TEST_CASE("statistics: segments, hits, misses, splits and the largest free block") {
  auto account = capped_host_account("caching", 64 * kMiB);
  Block small = account->allocate(1000, Category::other);  // splits a segment of 2 MiB
  Block large = account->allocate(4 * kMiB, Category::other);
  PlannerStats stats = account->planner_stats();
  CHECK(stats.segments == 2);
  CHECK(stats.misses == 2);
  CHECK(stats.hits == 0);
  CHECK(stats.splits == 1);
  CHECK(stats.largest_free == 2 * kMiB - 1024);
  account->release(large);
  large = account->allocate(3 * kMiB, Category::other);
  stats = account->planner_stats();
  CHECK(stats.hits == 1);
  CHECK(stats.splits == 2);
  account->release(small);
  account->release(large);
  CHECK(account->planner_stats().largest_free == 4 * kMiB);
  account->empty_cache();
  stats = account->planner_stats();
  CHECK(stats.segments == 0);
  CHECK(stats.largest_free == 0);
}

TEST_CASE("blocks above max_split stay whole, for requests of nearly their size") {
  Account account(Device::cpu(), std::make_unique<HostSource>(),
                  caching_planner({.max_split = 8 * kMiB}));
  auto get = [&](int64_t mib) { return account.allocate(mib * kMiB, Category::other); };
  account.release(get(16));
  Block small = get(1);  // not from the 16 MiB
  CHECK(account.stats().reserved == 17 * kMiB);
  Block half = get(9);  // above the limit, but it would waste 7 MiB
  CHECK(account.stats().reserved == 26 * kMiB);
  Block nearly = get(15);  // takes it whole
  CHECK(account.stats().reserved == 26 * kMiB);
  CHECK(account.stats().fragmented == kMiB);
  CHECK(account.planner_stats().splits == 0);
  Block at = get(8);  // the limit itself may be split
  account.release(at);
  at = get(2);
  CHECK(account.planner_stats().splits == 1);
  for (const Block& block : {small, half, nearly, at}) account.release(block);

  CHECK_THROWS_WITH_AS(
      Account(Device::cpu(), std::make_unique<HostSource>(), caching_planner({.max_split = 1024})),
      "caching planner: expected max_split of at least 2097152 bytes, a small segment, got 1024",
      ValueError);
}

TEST_CASE("before a request is refused, blocks kept for the other kind serve it") {
  auto account = capped_host_account("caching", 8 * kMiB);
  Block large = account->allocate(8 * kMiB, Category::other);
  account->release(large);
  large = account->allocate(4 * kMiB, Category::other);  // 4 MiB of its segment are free
  Block small = account->allocate(1000, Category::other);
  CHECK(account->stats().reserved == 8 * kMiB);
  account->release(small);
  account->release(large);
  account->empty_cache();

  std::vector<Block> crowd;  // of one small segment, with room for a large request in its middle
  for (int i = 0; i < 4; ++i) crowd.push_back(account->allocate(512 << 10, Category::other));
  account->release(crowd[1]);
  account->release(crowd[2]);
  Block rest = account->allocate(6 * kMiB, Category::other);
  large = account->allocate(kMiB, Category::other);
  CHECK(account->stats().reserved == 8 * kMiB);
  for (const Block& block : {crowd[0], crowd[3], rest, large}) account->release(block);
  account->empty_cache();
  CHECK(account->stats().reserved == 0);
}
