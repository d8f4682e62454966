// What holds of every planner under an account, whatever is asked of it in whatever order: the
// identity after every operation, alignment, no overlap, bytes as they were left.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "brim/base/random.h"
#include "brim/memory/account.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/caching_planner.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/support/memory_script.h"

using namespace brim;
using namespace brim::memory;

namespace {

constexpr int64_t kMiB = 1 << 20, kCapacity = 64 * kMiB;

// Random operations on an account, each followed by every check.
class Exercise {
 public:
  Exercise(const MakePlanner& planner, uint64_t seed)
      : account_(Device::cpu(), std::make_unique<HostSource>(kCapacity), planner),
        random_(RandomKey{seed}) {
    account_.set_checking(true);
  }

  void run(int operations) {
    check_numbers();
    for (int i = 0; i < operations; ++i) {
      operation();
      check_numbers();
    }
    while (!held_.empty()) {
      release(held_.size() - 1);
      check_numbers();
    }
    CHECK(account_.stats().live == 0);
    CHECK(account_.stats().fragmented == 0);
    account_.empty_cache();
    check_numbers();
    CHECK(refused_ > 0);  // the device was full at times
    CHECK(served_ > operations / 4);
  }
  int64_t reserved() const { return account_.stats().reserved; }

 private:
  struct Held {
    Block block;
    unsigned char pattern;
  };

  void operation() {
    uint64_t choice = random_.below(100);
    if (choice == 0) return account_.empty_cache();
    if (choice == 1) return step_or_section();
    if (choice < 5 && !held_.empty()) {
      Held& held = held_[random_.below(held_.size())];
      return account_.recategorize(held.block, any_category());
    }
    if (held_.empty() || choice < 56) return request();
    release(random_.below(held_.size()));
  }

  Category any_category() { return static_cast<Category>(random_.below(kCategories)); }

  void step_or_section() {
    account_.begin_step();
    check_numbers();
    account_.begin_section({SectionKind::micro_step, static_cast<int64_t>(random_.below(3))});
    check_numbers();
    request();
    account_.end_section();
    check_numbers();
    account_.end_step();
  }

  void request() {
    auto bytes = static_cast<int64_t>(std::exp(random_.uniform(0, 15.5f)));  // six orders
    StreamScope stream(static_cast<int>(random_.below(2)));
    AccountStats before = account_.stats();
    try {
      Block block = account_.allocate(bytes, any_category());
      REQUIRE(reinterpret_cast<uintptr_t>(block.address()) % kAlignment == 0);
      REQUIRE(block.bytes >= bytes);
      for (const Held& other : held_) REQUIRE(!overlaps(block, other.block));
      auto pattern = static_cast<unsigned char>(++served_ % 251);
      std::memset(block.address(), pattern, static_cast<size_t>(block.bytes));
      held_.push_back({block, pattern});
    } catch (const OutOfMemory& error) {
      ++refused_;
      REQUIRE(error.shortage().requested >= bytes);
      REQUIRE(account_.stats().live == before.live);
      REQUIRE(account_.stats().by_category == before.by_category);
    }
  }

  void release(size_t i) {
    std::swap(held_[i], held_.back());
    auto [block, pattern] = held_.back();
    held_.pop_back();
    const auto* data = static_cast<const unsigned char*>(block.address());
    int64_t intact = 0;
    while (intact < block.bytes && data[intact] == pattern) ++intact;
    REQUIRE(intact == block.bytes);
    account_.release(block);
  }

  static bool overlaps(const Block& a, const Block& b) {
    auto *p = static_cast<char*>(a.address()), *q = static_cast<char*>(b.address());
    return p < q + b.bytes && q < p + a.bytes;
  }

  void check_numbers() const {
    AccountStats s = account_.stats();
    REQUIRE(s.reserved == s.live + s.cached + s.fragmented);
    REQUIRE(s.cached >= 0);
    REQUIRE(s.fragmented >= 0);
    REQUIRE(s.reserved <= kCapacity);
    REQUIRE(s.peak_reserved >= s.reserved);
    int64_t live = 0, by_category = 0;
    for (const Held& held : held_) live += held.block.bytes;
    for (int64_t bytes : s.by_category) by_category += bytes;
    REQUIRE(s.live == live);
    REQUIRE(by_category == live);
    PlannerStats planner = account_.planner_stats();
    REQUIRE(planner.largest_free <= s.cached);
    if (account_.planner_name() == "caching")
      REQUIRE((planner.largest_free > 0) == (s.cached > 0));
  }

  Account account_;
  RandomStream random_;
  std::vector<Held> held_;
  int64_t served_ = 0, refused_ = 0;
};

}  // namespace

TEST_CASE("direct: random requests and releases keep every promise") {
  for (uint64_t seed : {1u, 2u}) {
    Exercise exercise(planner_named("direct"), seed);
    exercise.run(4000);
    CHECK(exercise.reserved() == 0);
  }
}

TEST_CASE("caching: random requests and releases keep every promise") {
  for (uint64_t seed : {1u, 2u}) {
    Exercise exercise(planner_named("caching"), seed);
    exercise.run(4000);
    CHECK(exercise.reserved() == 0);
  }
}

TEST_CASE("caching with a limit on splitting: random requests and releases keep every promise") {
  Exercise exercise(caching_planner({.max_split = 2 * kMiB}), 3);
  exercise.run(4000);
  CHECK(exercise.reserved() == 0);
}

TEST_CASE("arena without a plan: every request is a stray, and keeps every promise") {
  auto plan = std::make_shared<Plan>(make_plan({}));
  Exercise exercise(arena_planner(plan), 4);
  exercise.run(4000);
  CHECK(exercise.reserved() == 0);
}

TEST_CASE("arena with the plan of another program: random requests keep every promise") {
  brim::testing::ToyTraining toy(6);
  auto plan = std::make_shared<Plan>(
      make_plan(brim::testing::record({toy.setup(), toy.step({64, 64, 7}), toy.evaluation(64)})));
  REQUIRE(plan->arena_bytes > 0);
  for (uint64_t seed : {5u, 6u}) {
    Exercise exercise(arena_planner(plan), seed);
    exercise.run(4000);
    CHECK(exercise.reserved() == plan->arena_bytes);
  }
}
