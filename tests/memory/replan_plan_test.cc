// Moves to a plan and from it, midway in a training: state is in its kept places, steps follow the
// plan, and what does not is counted.
#include <doctest/doctest.h>

#include "brim/memory/arena_planner.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/support/memory_script.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

namespace {

/// Makes arena planners and knows the last one.
struct KnownArena {
  std::shared_ptr<const Plan> plan;
  ArenaPlanner* made = nullptr;

  MakePlanner maker() {
    return [this](Source& source) {
      auto planner = std::make_unique<ArenaPlanner>(source, plan);
      made = planner.get();
      return planner;
    };
  }
  int64_t kept_buffers(const Account& account) const {
    int64_t count = 0;
    account.for_each_live([&](const LiveBuffer& buffer) {
      int64_t offset = made->offset_of({buffer.address});
      count += 0 <= offset && offset + buffer.bytes <= plan->kept_bytes ? 1 : 0;
    });
    return count;
  }
};

KnownArena arena_of(const std::vector<int64_t>& parts) {
  ToyTraining toy(5);
  return {plan_of({toy.setup(), toy.step(parts), toy.step(parts), toy.evaluation(16)})};
}

}  // namespace

TEST_CASE("midway to a plan: state is in its kept places, and the steps follow the plan") {
  KnownArena arena = arena_of({16});
  for (const char* before : {"direct", "caching"}) {
    auto account = capped_host_account(before);
    account->set_checking(true);
    ScriptRunner runner(account);  // compares bytes as they are dropped
    ToyTraining toy(5);
    runner.run(toy.setup());
    runner.run(toy.step({64}));
    runner.run(toy.step({64}));
    account->set_cap(arena.plan->arena_bytes);
    account->replan(arena.maker());
    CHECK(account->stats().mismatches == 0);
    CHECK(arena.kept_buffers(*account) == runner.held());
    account->reset_peak();
    for (int i = 0; i < 3; ++i) runner.run(toy.step({16}));
    runner.run(toy.evaluation(16));
    CHECK(account->stats().mismatches == 0);
    CHECK(account->mismatch_report() == "");
    CHECK(account->stats().peak_reserved == arena.plan->arena_bytes);
  }
}

TEST_CASE("from plan to plan, smaller and larger, as often as one likes") {
  KnownArena small = arena_of({8, 8}), large = arena_of({64});
  auto account = account_under(large.plan, large.plan->arena_bytes);
  ScriptRunner runner(account);
  ToyTraining toy(5);
  runner.run(toy.setup());
  for (int i = 0; i < 3; ++i) {
    runner.run(toy.step({64}));
    account->set_cap(small.plan->arena_bytes);
    account->replan(small.maker());
    CHECK(account->stats().reserved == small.plan->arena_bytes);
    runner.run(toy.step({8, 8}));
    account->set_cap(large.plan->arena_bytes);
    account->replan(large.maker());
    CHECK(account->stats().reserved == large.plan->arena_bytes);
  }
  CHECK(account->stats().mismatches == 0);
  CHECK(account->stats().peak_reserved == large.plan->arena_bytes);
}

TEST_CASE("a tensor that someone keeps is not in the plan, and moves as any that is not") {
  KnownArena arena = arena_of({16});
  auto account = capped_host_account("caching");
  account->set_checking(true);
  ScriptRunner runner(account);
  ToyTraining toy(5);
  runner.run(toy.setup());
  runner.run({{.buffer = 1000, .bytes = 12'345}});
  account->replan(arena.maker());
  CHECK(account->stats().mismatches == 1);
  CHECK(arena.kept_buffers(*account) == runner.held() - 1);
  CHECK(account->stats().reserved > arena.plan->arena_bytes);
  runner.run(toy.step({16}));
  runner.drop(1000);
  runner.run(toy.step({16}));
  CHECK(account->stats().mismatches == 1);
}

TEST_CASE("mismatches add up over planners; a move that fails adds none") {
  KnownArena arena = arena_of({16});
  auto account = account_under(arena.plan);
  ScriptRunner runner(account);
  ToyTraining toy(5);
  runner.run(toy.setup());
  runner.run(toy.step({24}));  // not what was rehearsed
  const int64_t first = account->stats().mismatches;
  REQUIRE(first > 0);
  Block stray = account->allocate(77, Category::other);
  const int64_t second = account->stats().mismatches;
  REQUIRE(second == first + 1);

  auto too_large = std::make_shared<Plan>(*arena.plan);
  too_large->arena_bytes = Source::kUnlimited / 4 / kAlignment * kAlignment;
  CHECK_THROWS_AS(account->replan(arena_planner(too_large)), OutOfMemory);
  CHECK(account->planner_name() == "arena");
  CHECK(account->stats().mismatches == second);

  account->replan(arena.maker());
  CHECK(account->stats().mismatches == second + 1);  // the stray, again
  account->release(stray);
  account->replan(planner_named("caching"));
  runner.run(toy.step({24}));
  CHECK(account->stats().mismatches == second + 1);
  CHECK(account->mismatch_report() == "");
}

TEST_CASE("a recording goes on through a move as if there had been none") {
  auto record_with = [](bool moves) {
    auto account = capped_host_account("direct");
    BufferRecorder recorder(account);
    ScriptRunner runner(account);
    ToyTraining toy(5);
    runner.run(toy.setup());
    if (moves) account->replan(planner_named("caching"));
    runner.run(toy.step({16}));
    Trace trace = recorder.take();
    for (TraceBuffer& buffer : trace.buffers) buffer.run = 0;  // counted over all tests
    return trace;
  };
  CHECK(record_with(true).buffers == record_with(false).buffers);
}
