#include "brim/memory/arena_planner.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "brim/base/error.h"
#include "brim/memory/account.h"
#include "brim/memory/out_of_memory.h"
#include "brim/memory/stream.h"
#include "brim/tests/support/memory_script.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

TEST_CASE("a rehearsed program runs without a mismatch in exactly the planned bytes") {
  ToyTraining toy(6);
  std::vector<Script> scripts{toy.setup(),       toy.step({8}), toy.step({8}), toy.evaluation(9),
                              toy.evaluation(3), toy.step({5}), toy.step({8})};
  auto plan = plan_of(scripts);
  auto account = account_under(plan, plan->arena_bytes);
  ScriptRunner runner(account);
  for (const Script& script : scripts) runner.run(script);
  AccountStats stats = account->stats();
  CHECK(stats.mismatches == 0);
  CHECK(stats.peak_reserved == plan->arena_bytes);
  CHECK(stats.peak_live == plan->lower_bound);
  CHECK(account->mismatch_report() == "");
}

TEST_CASE("a source that is one unit short is refused before anything runs, with the number") {
  ToyTraining toy(3);
  auto plan = plan_of({toy.setup(), toy.step({8}), toy.step({8})});
  CHECK_NOTHROW(account_under(plan, plan->arena_bytes));
  try {
    account_under(plan, plan->arena_bytes - 64);
    FAIL("it was taken");
  } catch (const OutOfMemory& error) {
    CHECK(error.shortage().requested == plan->arena_bytes);
    CHECK(std::string(error.what()).find(std::to_string(plan->arena_bytes)) != std::string::npos);
  }
}

TEST_CASE("1,000 steady steps reserve nothing more") {
  ToyTraining toy(4);
  auto plan = plan_of({toy.setup(), toy.step({4}), toy.step({4})});
  ToyTraining again(4);
  auto account = account_under(plan);
  ScriptRunner runner(account);
  runner.run(again.setup());
  for (int i = 0; i < 1000; ++i) runner.run(again.step({4}));
  CHECK(account->stats().mismatches == 0);
  CHECK(account->stats().peak_reserved == plan->arena_bytes);
}

TEST_CASE("a request that is refused anywhere leaves a program that can run again as planned") {
  ToyTraining toy(3);
  auto plan = plan_of({toy.setup(), toy.step({4, 4}), toy.step({4, 4}), toy.evaluation(6)});
  auto requests = std::ranges::count(toy.step({4, 4}), Action::Kind::ask, &Action::kind);
  for (int64_t nth = 1; nth <= requests; ++nth) {
    ToyTraining again(3);
    auto account = account_under(plan, plan->arena_bytes);
    ScriptRunner runner(account);
    runner.run(again.setup());
    int64_t live = account->stats().live;
    account->fail_nth(nth);
    CHECK_THROWS_AS(runner.run(again.step({4, 4})), OutOfMemory);
    CHECK(account->stats().live == live);
    runner.run(again.step({4, 4}));
    runner.run(again.evaluation(6));
    CHECK(account->stats().mismatches == 0);
  }
}
