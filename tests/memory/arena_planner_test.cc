#include "brim/memory/arena_planner.h"

#include <doctest/doctest.h>

#include "brim/base/error.h"
#include "brim/memory/account.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/support/memory_script.h"

using namespace brim;
using namespace brim::memory;
using brim::testing::Action;
using brim::testing::record;
using brim::testing::Script;
using brim::testing::ScriptRunner;
using brim::testing::ToyTraining;

namespace {

std::shared_ptr<const Plan> plan_of(const std::vector<Script>& scripts) {
  return std::make_shared<const Plan>(make_plan(record(scripts)));
}

std::shared_ptr<Account> account_under(std::shared_ptr<const Plan> plan,
                                       int64_t capacity = host_memory()) {
  auto account = std::make_shared<Account>(Device::cpu(), std::make_unique<HostSource>(capacity),
                                           arena_planner(std::move(plan)));
  account->set_checking(true);
  return account;
}

}  // namespace

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
