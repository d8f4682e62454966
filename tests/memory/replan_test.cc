// Moves between planners: what an account holds keeps its values and what is noted of it. For moves
// that fail see replan_failure_test.cc, for those to a plan replan_plan_test.cc.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "brim/base/error.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/caching_planner.h"
#include "brim/tests/memory/holder.h"
#include "brim/tests/support/simulated_device.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

TEST_CASE("what is held keeps its values and its notes from planner to planner") {
  Holder holder(planner_named("direct"));
  const auto notes = holder.notes();
  const AccountStats before = holder.account.stats();
  auto plan = plan_for(holder);
  const std::vector<std::pair<std::string, MakePlanner>> planners{
      {"caching", planner_named("caching")}, {"arena", arena_planner(plan)},
      {"direct", planner_named("direct")},   {"direct", planner_named("direct")},
      {"arena", arena_planner(plan)},        {"caching", caching_planner({.max_split = 2 * kMiB})}};
  for (const auto& [name, planner] : planners) {
    CAPTURE(name);
    holder.account.replan(planner);
    CHECK(holder.account.planner_name() == name);
    CHECK(holder.values_are_there());
    CHECK(holder.notes() == notes);
    CHECK(holder.adds_up());
    AccountStats now = holder.account.stats();
    CHECK(now.live == before.live);
    CHECK(now.by_category == before.by_category);
    CHECK(now.peak_live == before.peak_live);
    CHECK(now.requests == before.requests);
    CHECK(now.mismatches == 0);
    if (name == "direct") CHECK(now.reserved == now.live);
    if (name == "arena") CHECK(now.reserved == plan->arena_bytes);
  }
}

TEST_CASE("the account goes on after a move as if nothing had been: requests, releases, checks") {
  Holder holder(planner_named("caching"));
  const uint64_t last = holder.blocks.back().id;
  holder.account.replan(planner_named("direct"));
  holder.hold(5000);
  CHECK(holder.blocks.back().id > last);
  holder.release(0);
  holder.account.replan(planner_named("caching"));
  CHECK(holder.values_are_there());
  Block gone = holder.blocks.back();
  holder.release(holder.blocks.size() - 1);
  holder.hold(5000);  // the note of the one before serves again
  holder.account.release(gone);
  CHECK_THROWS_WITH_AS(holder.account.allocate(64, Category::other),
                       doctest::Contains("a block that was released was held"), InternalError);
  CHECK(holder.values_are_there());
}

TEST_CASE("an account that holds nothing moves, too") {
  Account account(Device::cpu(), std::make_unique<HostSource>(), planner_named("caching"));
  account.release(account.allocate(kMiB, Category::other));
  CHECK(account.stats().reserved > 0);
  account.replan(planner_named("direct"));
  CHECK(account.stats().reserved == 0);
}

TEST_CASE("a device without bytes moves more than any machine holds") {
  Account account(Device::meta(), std::make_unique<NullSource>(), planner_named("direct"));
  Block huge = account.allocate(int64_t{1} << 50, Category::parameters);
  account.replan(planner_named("caching"));
  CHECK(account.stats().live == int64_t{1} << 50);
  CHECK(account.planner_name() == "caching");
  account.release(huge);
}

TEST_CASE("a limit below what is reserved is enough for a planner that fits in") {
  Holder holder(planner_named("caching"));
  Account& account = holder.account;
  account.release(account.allocate(16 * kMiB, Category::activations));
  const int64_t reserved = account.stats().reserved, live = account.stats().live;
  REQUIRE(reserved > live + 16 * kMiB);
  account.set_cap(live);
  account.reset_peak();
  account.replan(planner_named("direct"));
  CHECK(account.stats().reserved == live);
  CHECK(account.stats().peak_reserved == reserved);  // not both at once
  CHECK(account.cap() == live);
  CHECK(holder.values_are_there());
  account.set_cap(64 * kMiB);
  account.reset_peak();
  account.replan(planner_named("caching"));
  CHECK(account.stats().peak_reserved == account.stats().reserved);
}

TEST_CASE("within a step or a section nothing moves") {
  Holder holder(planner_named("direct"));
  Account& account = holder.account;
  const void* address = holder.blocks.front().address();
  auto is_refused = [&](const char* text) {
    CHECK_THROWS_WITH_AS(account.replan(planner_named("caching")), doctest::Contains(text),
                         ValueError);
    CHECK(account.planner_name() == "direct");
    CHECK(holder.blocks.front().address() == address);
  };
  account.begin_step();
  is_refused("replan: expected to be between steps and sections, 1 steps and 0 sections run");
  account.begin_section({SectionKind::first_micro_step, 8});
  is_refused("1 steps and 1 sections run");
  account.end_section();
  account.end_step();
  account.begin_section({SectionKind::evaluation, 8});
  is_refused("0 steps and 1 sections run");
  account.end_section();
  account.replan(planner_named("caching"));
  CHECK(holder.values_are_there());
}

TEST_CASE("work that is under way is done before its bytes move") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    auto device = std::make_shared<SimulatedDevice>(3, seed);
    auto owned = std::make_unique<SimulatedDeviceSource>(64 * kMiB, device);
    SimulatedDeviceSource& source = *owned;
    Account account(Device::cpu(), std::move(owned), planner_named("caching"));
    std::vector<Block> blocks;
    for (int i = 0; i < 12; ++i) {
      StreamScope stream(i % 3);
      Block block = account.allocate(1000 * (i + 1), Category::parameters);
      auto size = static_cast<size_t>(block.bytes);
      void* data = block.address();
      device->enqueue(i % 3, data, block.bytes, [=] { std::memset(data, i, size); });
      blocks.push_back(block);
    }
    account.replan(planner_named(seed % 2 == 0 ? "caching" : "direct"));
    CHECK(source.returned_too_early() == 0);
    for (int i = 0; i < 12; ++i) {
      const auto* bytes = static_cast<const char*>(blocks[static_cast<size_t>(i)].address());
      CHECK((bytes[0] == i && bytes[1000 * (i + 1) - 1] == i));
      account.release(blocks[static_cast<size_t>(i)]);
    }
  }
}
