// Whom the account asks before it refuses, and that it comes out of that as it went in.
#include "brim/memory/reclaimer.h"

#include <doctest/doctest.h>

#include <deque>
#include <stdexcept>
#include <thread>
#include <vector>

#include "brim/memory/account.h"
#include "brim/memory/out_of_memory.h"

using namespace brim;
using namespace brim::memory;

namespace {

constexpr int64_t kUnit = 64;

/// Gives back blocks that it was told of, the oldest first.
struct Oldest final : Reclaimer {
  explicit Oldest(Account& of, int64_t at_most = Source::kUnlimited) : account(of), most(at_most) {}
  ~Oldest() override {
    while (!blocks.empty()) release();
  }
  void hold(int64_t units) { blocks.push_back(account.allocate(units * kUnit, Category::other)); }
  void release() {
    account.release(blocks.front());
    blocks.pop_front();
  }
  int64_t limit() const override { return most; }
  bool reclaim(const Account& asked, int64_t bytes) override {
    CHECK(&asked == &account);
    asked_for.push_back(bytes);
    int64_t freed = 0;
    for (; freed < bytes && !blocks.empty(); release()) freed += blocks.front().bytes;
    return freed > 0;
  }

  Account& account;
  int64_t most;
  std::deque<Block> blocks;
  std::vector<int64_t> asked_for;
};

}  // namespace

TEST_CASE("what goes beyond the limit is served once enough was freed, and the peak is the limit") {
  for (const char* planner : {"direct", "caching"}) {
    CAPTURE(planner);
    auto account = capped_host_account(planner, 1 << 20);
    Oldest oldest(*account, 10 * kUnit);
    ReclaimerScope scope(*account, &oldest);
    for (int i = 0; i < 5; ++i) oldest.hold(2);
    CHECK(oldest.asked_for.empty());
    oldest.hold(3);
    CHECK(oldest.asked_for == std::vector{3 * kUnit});
    CHECK(oldest.blocks.size() == 4);
    CHECK(account->stats().live == 9 * kUnit);
    CHECK(account->stats().peak_live == 10 * kUnit);
    CHECK(account->stats().requests == 6);
    CHECK(oldest.blocks.back().id == 6);
  }
}

TEST_CASE("what cannot be freed is refused, and the message says what was held to") {
  auto account = capped_host_account("direct", 1 << 20);
  Oldest oldest(*account, 10 * kUnit);
  ReclaimerScope scope(*account, &oldest);
  oldest.hold(4);
  Block kept = account->allocate(4 * kUnit, Category::parameters);
  CHECK_THROWS_WITH_AS(account->allocate(7 * kUnit, Category::activations),
                       doctest::Contains("live 256 B (held to 640 B)"), OutOfMemory);
  CHECK(account->stats().live == 4 * kUnit);  // it was freed all the same
  CHECK(oldest.asked_for == std::vector{5 * kUnit, kUnit});
  account->release(account->allocate(6 * kUnit, Category::activations));
  account->release(kept);
}

TEST_CASE("a planner without room is helped as often as it takes") {
  auto account = capped_host_account("direct", 10 * kUnit);
  Oldest oldest(*account);
  ReclaimerScope scope(*account, &oldest);
  for (int i = 0; i < 5; ++i) oldest.hold(2);
  oldest.hold(5);
  CHECK(oldest.asked_for == std::vector<int64_t>{1, 1, 1});
  CHECK(account->stats().live == 9 * kUnit);
}

TEST_CASE("an injected refusal asks too, and what it frees serves the request") {
  auto account = capped_host_account("direct", 1 << 20);
  Oldest oldest(*account);
  ReclaimerScope scope(*account, &oldest);
  oldest.hold(1);
  account->fail_nth(1);
  oldest.hold(2);
  CHECK(oldest.blocks.size() == 1);
  oldest.release();
  account->fail_nth(1);
  CHECK_THROWS_WITH_AS(oldest.hold(2), doctest::Contains("injected fault"), OutOfMemory);
  CHECK(account->stats().live == 0);
}

TEST_CASE("its own requests do not ask it again") {
  struct Greedy final : Reclaimer {
    explicit Greedy(Account& of) : account(of) {}
    int64_t limit() const override { return 2 * kUnit; }
    bool reclaim(const Account&, int64_t) override {
      ++asked;
      account.release(account.allocate(100 * kUnit, Category::other));
      return false;
    }
    Account& account;
    int asked = 0;
  };
  auto account = capped_host_account("direct", 1 << 20);
  Greedy greedy(*account);
  ReclaimerScope scope(*account, &greedy);
  CHECK_THROWS_AS(account->allocate(3 * kUnit, Category::other), OutOfMemory);
  CHECK(greedy.asked == 1);
  account->release(account->allocate(2 * kUnit, Category::other));
}

TEST_CASE("one that throws lets the next request ask again") {
  struct Throwing final : Reclaimer {
    bool reclaim(const Account&, int64_t) override {
      ++asked;
      throw std::runtime_error("no");
    }
    int asked = 0;
  };
  auto account = capped_host_account("direct", kUnit);
  Throwing throwing;
  ReclaimerScope scope(*account, &throwing);
  for (int i = 0; i < 2; ++i)
    CHECK_THROWS_AS(account->allocate(2 * kUnit, Category::other), std::runtime_error);
  CHECK(throwing.asked == 2);
  account->release(account->allocate(kUnit, Category::other));  // its lock is free
}

TEST_CASE("other accounts, other threads and inner scopes are asked for themselves") {
  auto account = capped_host_account("direct", 1 << 20), other = capped_host_account("direct", 64);
  Oldest oldest(*account, 2 * kUnit);
  ReclaimerScope scope(*account, &oldest);
  CHECK_THROWS_AS(other->allocate(2 * kUnit, Category::other), OutOfMemory);
  CHECK(oldest.asked_for.empty());
  std::thread([&] { account->release(account->allocate(9 * kUnit, Category::other)); }).join();
  CHECK(oldest.asked_for.empty());
  {
    ReclaimerScope nobody(*account, nullptr);
    account->release(account->allocate(9 * kUnit, Category::other));
  }
  CHECK(oldest.asked_for.empty());
  CHECK_THROWS_AS(account->allocate(9 * kUnit, Category::other), OutOfMemory);
  CHECK(oldest.asked_for.size() == 1);
}
